import { silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import type { LuaOutbox } from '@ackord/redis/lua-outbox'
import { spread } from '../figures.ts'
import { instantPublisher } from '../instant-publisher.ts'
import { rateOf, runRounds } from '../rounds.ts'
import { newRecords } from './records.ts'

/** The rate of a relay whose publisher confirms immediately. */
export async function relayFigures(outbox: LuaOutbox): Promise<Record<string, number>> {
  const rates = await runRounds(
    {
      async relay(count) {
        for (let stored = 0; stored < count; stored += 500) await outbox.enqueue(newRecords(500))
        return await rateOf(count, () => carry(outbox, count))
      },
    },
    { rounds: 5, count: 20_000 },
  )
  return spread('relay_per_s', rates.of('relay'))
}

async function carry(outbox: LuaOutbox, count: number): Promise<number> {
  const publisher = instantPublisher(count)
  const relay = new Relay(outbox, { publisher, batchSize: 500, logger: silentLogger })
  relay.start()
  await publisher.finished
  await relay.stop()
  return publisher.published
}
