import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { OutboxMode, SqlOutbox } from '../../../src/index.ts'
import { openPg } from '../../support/world.ts'
import { drain, logged } from '../support/log-store.ts'
import { keyed, lease, ordered, published } from '../support/ordered-store.ts'

const keysPerWriter = 5
const transactionsPerMode = 25

describe('switching between the modes under load', () => {
  it('keeps the order of keys, and publishes everything once', async () => {
    await using world = await openPg({ max: 16 })
    const { database } = world
    const seen: string[] = []
    const written = new Map<string, number>()
    let writing = true
    const writersIn = new Map<OutboxMode, number>([
      ['table', 0],
      ['log', 0],
    ])
    /** The most writers that used each mode while others used the other one. */
    let mixed = 0

    /** Stores numbered records of its own keys, in one mode after the other. */
    async function write(writer: number): Promise<void> {
      const stores = { table: ordered(database), log: logged(database) }
      for (const mode of ['table', 'log', 'table'] as const) {
        writersIn.set(mode, (writersIn.get(mode) ?? 0) + 1)
        for (let count = 0; count < transactionsPerMode + 5 * writer; count += 1) {
          const key = `${writer}.${count % keysPerWriter}`
          const number = written.get(key) ?? 0
          await database.write((transaction) =>
            stores[mode].append(transaction, [keyed(key, `${key}/${number}`), keyed(key, `${key}/${number + 1}`)]),
          )
          written.set(key, number + 2)
          mixed = Math.max(mixed, Math.min(...writersIn.values()))
        }
        writersIn.set(mode, (writersIn.get(mode) ?? 0) - 1)
      }
    }

    async function publish(store: SqlOutbox<unknown>): Promise<void> {
      while (writing) {
        const claimed = await store.claim({ limit: 20, lease })
        seen.push(...claimed.map(({ message }) => String(message.id)))
        expect(await store.settle(claimed.map(published))).not.toContain('lost')
        await setImmediate()
      }
    }

    const relays = [logged(database), logged(database)]
    const publishing = Promise.all(relays.map(publish))
    const writers = Promise.all([0, 1, 2, 3].map(write)).finally(() => {
      writing = false
    })
    await Promise.all([publishing, writers])
    expect(mixed).toBeGreaterThan(0)
    for (const relay of relays) {
      // The log is empty then. What a relay moves to the outbox table when it leaves, the next one publishes.
      for (const id of await drain(relay, 20)) seen.push(String(id))
      await relay.leave?.()
    }
    await database.write((transaction) => ordered(database).append(transaction, [keyed('end', 'end/0')]))
    written.set('end', 1)
    for (const id of await drain(ordered(database), 20)) seen.push(String(id))
    for (const [key, count] of written) {
      const numbers = seen.filter((id) => id.startsWith(`${key}/`)).map((id) => Number(id.slice(key.length + 1)))
      expect(numbers, key).toEqual(Array.from({ length: count }, (_, number) => number))
    }
    expect(seen).toHaveLength([...written.values()].reduce((sum, count) => sum + count))
    expect(await world.outbox()).toBe(0)
  })
})
