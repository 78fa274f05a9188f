import { type Publisher, silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import type { LuaOutbox } from '@ackord/redis'
import { rateOf, runRounds } from '../rounds.ts'
import { newRecords } from './records.ts'

/** A relay whose publisher confirms at once. */
export async function relayFigures(outbox: LuaOutbox): Promise<Record<string, number>> {
  const rates = await runRounds(
    {
      async relay(count) {
        for (let stored = 0; stored < count; stored += 500) await outbox.enqueue(newRecords(500))
        return await rateOf(count, () => carry(outbox, count))
      },
    },
    { rounds: 4, count: 20_000 },
  )
  return { relay_per_s: Math.round(rates.relay) }
}

async function carry(outbox: LuaOutbox, count: number): Promise<number> {
  let published = 0
  let finish: (() => void) | undefined
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  const publisher: Publisher = {
    async publish(_, messages) {
      published += messages.length
      if (published >= count) finish?.()
      return messages.map(() => ({ ok: true }))
    },
  }
  const relay = new Relay(outbox, { publisher, batchSize: 500, logger: silentLogger })
  relay.start()
  await finished
  await relay.stop()
  return published
}
