import { Message, type Publisher, silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { deferred } from '@ackord/testkit'
import { expect } from 'vitest'
import { type Database, type Order, sqlOutbox } from '../../src/index.ts'
import { event } from './world.ts'

export interface BreakableWorld<Handle> {
  readonly database: Database<Handle>
  /** Sets the attributes of the event with this id directly in the table, bypassing Ackord. */
  breakAttributes(id: string, attributes: string): Promise<unknown>
}

const broken = { 'not json': '{"id":', 'a list': '["id"]', 'a nested value': '{"id":"e","more":{"a":1}}' }

/** Tests that the relay parks unreadable records with the reason, and publishes the others, including those of the same key. */
export async function expectUnreadableParked<Handle>({ database, breakAttributes }: BreakableWorld<Handle>, order: Order): Promise<void> {
  const outbox = sqlOutbox(database, { order, logger: silentLogger })
  const ids = Array.from({ length: 9 }, (_, index) => `e${index}`)
  const records = ids.map((id, index) => ({
    destination: 'events',
    message: new Message(new Uint8Array([1]), event(id, { partitionkey: `key-${index % 2}` }).attributes),
  }))
  await database.write(async (transaction) => await outbox.append(transaction, records))
  const unreadable = ['e1', 'e4', 'e5']
  for (const [index, attributes] of Object.values(broken).entries()) await breakAttributes(unreadable[index] ?? '', attributes)

  const published: (string | undefined)[] = []
  const all = deferred()
  const publisher: Publisher = {
    async publish(_, messages) {
      published.push(...messages.map(({ id }) => id))
      if (published.length === ids.length - unreadable.length) all.resolve()
      return messages.map(() => ({ ok: true }))
    },
  }
  const relay = new Relay(outbox, { publisher, logger: silentLogger }).start()
  await all.promise
  await relay.stop()
  expect(published.toSorted()).toEqual(ids.filter((id) => !unreadable.includes(id)))
  const { records: left } = await outbox.list({}, { limit: 100 })
  const problem = expect.stringContaining('attributes')
  expect(left.map(({ state, lastError, cause }) => [state, lastError, cause])).toEqual(unreadable.map(() => ['parked', problem, problem]))
  for (const { id } of left) expect(await outbox.history(id)).toEqual([{ at: expect.any(Number), error: problem }])
}
