import type { LuaOutbox } from '@ackord/redis/lua-outbox'
import type { Redis } from 'ioredis'
import { spread } from '../figures.ts'
import { rateOf, runRounds } from '../rounds.ts'
import { newRecord } from './records.ts'

const inFlight = 50

/** One record per call, with many concurrent calls: through the library, and by EVALSHA with arguments prepared in advance. */
export async function appendFigures(outbox: LuaOutbox, client: Redis): Promise<Record<string, number>> {
  const sha = await shaOf(outbox, client)
  const clear = async () => {
    const { keys } = outbox.prepare([newRecord()])
    await client.unlink(...keys)
  }
  const rates = await runRounds(
    {
      async raw(count) {
        await clear()
        const calls = Array.from({ length: count }, () => outbox.prepare([newRecord()]))
        return await rateOf(count, () => atOnce(calls, ({ keys, args }) => client.evalsha(sha, keys.length, ...keys, ...args)))
      },
      async append(count) {
        await clear()
        const records = Array.from({ length: count }, newRecord)
        return await rateOf(count, () => atOnce(records, (record) => outbox.enqueue([record])))
      },
    },
    { rounds: 6, count: 20_000 },
  )
  return {
    ...spread('raw_script_per_s', rates.of('raw')),
    ...spread('append_per_s', rates.of('append')),
    ...spread('append_ratio', rates.ratios('append', 'raw')),
  }
}

async function shaOf(outbox: LuaOutbox, client: Redis): Promise<string> {
  const { lua } = outbox.prepare([newRecord()])
  return String(await client.script('LOAD', lua))
}

/** Resolves to the number of processed items. */
async function atOnce<Item>(items: readonly Item[], call: (item: Item) => Promise<unknown>): Promise<number> {
  for (let done = 0; done < items.length; done += inFlight) await Promise.all(items.slice(done, done + inFlight).map(call))
  return items.length
}
