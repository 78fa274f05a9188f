import { Message, rootContext, silentLogger } from '@ackord/core'
import { cleanInbox, createSchema, type Database, type SqlOutbox, sqlOutbox, transactional, validateSchema } from '@ackord/sql'
import { expect } from 'vitest'

/** Runs every operation that puts a name into a statement. */
export async function useTables<Handle>(database: Database<Handle>, consumer: string): Promise<void> {
  await createSchema(database)
  await createSchema(database)
  await validateSchema(database)
  const outbox: SqlOutbox<Handle> = sqlOutbox(database, { logger: silentLogger, retain: true })
  const message = new Message({}, { id: 'm-1', type: 'order.place', source: '/shop', specversion: '1.0' })
  const middleware = transactional(database, {
    inbox: { consumer },
    outbox: { destination: 'events', source: '/orders' },
    transaction: { logger: silentLogger },
  })
  for (let delivery = 1; delivery <= 2; delivery += 1) {
    await middleware(async () => [new Message({}, { id: 'e-1', type: 'order.placed', source: '/orders' })])(
      message,
      message.context(rootContext()),
    )
  }
  const claimed = await outbox.claim({ limit: 10, lease: 1000 })
  expect(claimed).toHaveLength(1)
  expect(await outbox.renew(claimed, 1000)).toEqual([true])
  expect(await outbox.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))).toEqual(['applied'])
  expect((await outbox.stats()).destinations).toMatchObject([{ published: 1 }])
  expect(await outbox.deletePublished({ olderThan: 0, limit: 10 })).toBe(1)
  expect(await cleanInbox(database, { window: 0, limit: 10 })).toBeGreaterThanOrEqual(0)
}
