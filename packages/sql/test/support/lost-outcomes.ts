import { Message, silentLogger } from '@ackord/core'
import { expect } from 'vitest'
import { type Database, sqlOutbox } from '../../src/index.ts'
import { event } from './world.ts'

/** Tests that a member counts an attempt for a record in flight if it leaves after its outcome was too late. `outlive` expires its lease, by the database's clock. */
export async function expectCountedWhenLeft<Handle>(database: Database<Handle>, outlive: () => Promise<unknown>): Promise<void> {
  const [one, other] = [1, 2].map(() => sqlOutbox(database, { order: 'perKey', logger: silentLogger }))
  if (one === undefined || other === undefined) throw new Error('There must be two outboxes.')
  const message = new Message(new Uint8Array([1]), event('e1', { partitionkey: 'a' }).attributes)
  await database.write(async (transaction) => await one.append(transaction, [{ destination: 'events', message }]))
  const [claimed] = await one.claim({ limit: 1, lease: 60_000 })
  if (claimed === undefined) throw new Error('The claim returned no record.')
  await outlive()
  const { id, token } = claimed
  expect(await one.settle([{ id, token, result: 'published' }])).toEqual(['lost'])
  await one.leave?.()
  expect(await other.claim({ limit: 1, lease: 60_000 })).toMatchObject([{ attempts: claimed.attempts + 1 }])
}
