import type { PublishResult } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { ids, openWorld, records } from '../support/relay-world.ts'

const failure = new Error('connection reset')

/** How the publisher responds to a call that contains the bad record. */
const answers = {
  'resets the connection': async (): Promise<PublishResult[]> => {
    throw failure
  },
  'answers 503 to all of the call': async (messages: readonly unknown[]): Promise<PublishResult[]> =>
    messages.map(() => ({ ok: false, error: failure, scope: 'destination' })),
}

describe.each(Object.entries(answers))('a record for which its destination %s', (_, fail) => {
  it.each(['e1', 'e2', 'e17', 'e250', 'e500', 'e501'])('delays 500 others by less than half a minute, and is parked: %s', async (bad) => {
    const delays: number[] = []
    // Several seeds, because the record of a trial and the length of a pause are random.
    for (const seed of [1, 2, 3, 4, 5]) {
      const committed = new Map<string, number>()
      const world = openWorld({
        seed,
        maxAttempts: 3,
        answer: async ({ messages }) => {
          if (messages.some(({ id }) => id === bad)) return await fail(messages)
          for (const { id = '' } of messages) delays.push(runtime.monotonic() - (committed.get(id) ?? Number.NaN))
          return messages.map(() => ({ ok: true }))
        },
      })
      const { runtime } = world
      const add = (...added: readonly string[]) => {
        for (const id of added) committed.set(id, runtime.monotonic())
        return world.add('orders', ...added)
      }
      await add(...ids(501))
      world.relay.start()
      // A bad record can be distinguished from a failing destination only while other records succeed.
      for (let count = 1; count <= 300 && (await world.states()).parked !== 1; count += 1) {
        await runtime.advance(1000)
        await add(`later ${count}`)
      }
      await runtime.advance(1000)
      expect((await records(world)).map(({ state, message, attempts }) => [state, message.id, attempts])).toEqual([['parked', bad, 3]])
      // None of the others has lost an attempt or was sent twice.
      expect(world.relay.health()).toMatchObject({ published: committed.size - 1, failed: 2, parked: 1 })
      await world.relay.stop()
    }
    expect(Math.max(...delays)).toBeLessThan(30_000)
  })
})
