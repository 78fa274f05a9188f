import type { PublishResult } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { ids, openWorld, records } from '../support/relay-world.ts'

describe('a destination that answers a limited number of concurrent requests, and rejects the others', () => {
  it.each([1, 3])(
    'receives all records, none of which loses an attempt: %d concurrently',
    async (limit) => {
      let busy = 0
      const send = async (): Promise<PublishResult> => {
        if (busy >= limit) return { ok: false, error: new Error('overloaded'), scope: 'destination' }
        busy += 1
        await new Promise<void>((resolve) => void world.runtime.setTimeout(resolve, 50))
        busy -= 1
        return { ok: true }
      }
      const world = openWorld({ batchSize: 100, answer: ({ messages }) => Promise.all(messages.map(send)) })
      await world.add('orders', ...ids(300))
      world.relay.start()
      for (let minutes = 0; minutes < 120 && (await records(world)).length > 0; minutes += 1) await world.runtime.advance(60_000)
      expect(await world.states()).toEqual({})
      expect(world.relay.health()).toMatchObject({ published: 300, failed: 0, parked: 0 })
      await world.relay.stop()
    },
    60_000,
  )
})
