import { installProbe } from '@ackord/core/internal'
import { describe, expect, it } from 'vitest'
import { ids, openWorld, records } from '../support/relay-world.ts'

describe('a destination that takes longer than a tenth of a second', () => {
  it('receives the next batch when the one before is settled, so that a crash after a settle repeats nothing', async () => {
    const world = openWorld({
      batchSize: 10,
      async answer({ messages }) {
        await new Promise<void>((resolve) => void world.runtime.setTimeout(resolve, 150))
        return messages.map(() => ({ ok: true }))
      },
    })
    await world.add('orders', ...ids(50))
    const sentOrStored: number[] = []
    const remove = installProbe(async (point) => {
      if (point === 'relay.afterSettle') sentOrStored.push(world.sent().length + (await records(world)).length)
    })
    try {
      world.relay.start()
      await world.runtime.advance(60_000)
    } finally {
      remove()
    }
    expect(world.sent()).toHaveLength(50)
    expect(sentOrStored).toEqual([50, 50, 50, 50, 50])
    await world.relay.stop()
  })
})
