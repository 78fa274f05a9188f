import { Message, silentLogger } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import { expect, it } from 'vitest'
import { sqlOutbox, transactionMiddleware } from '../../src/index.ts'
import { event, failureOf, handle, openPg } from '../support/world.ts'

// Regression: records that append() stored and the relay could not read back were parked, or lost the attribute, long after their transaction.
it.each<[string, unknown]>([
  ['an object', { nested: true }],
  ['a list', [1]],
  ['null', null],
  ['NaN', Number.NaN],
  ['a BigInt', 1n],
  ['a function', () => {}],
  ['an invalid Date', new Date(Number.NaN)],
])('append() rejects an attribute that is %s', async (_, extra) => {
  await using world = await openPg()
  const { database } = world
  // An untyped caller may pass such attributes.
  const message = new Message(new Uint8Array([1]), { ...event('e1').attributes, extra } as NewOutboxRecord['message']['attributes'])
  const error = await failureOf(
    handle(transactionMiddleware(database), async () => {
      await sqlOutbox(database, { logger: silentLogger }).append(database.executor(), [{ destination: 'events', message }])
      return []
    }),
  )
  expect(error).toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES', message: expect.stringMatching(/'extra'/) })
})

// Regression, like append(): records that rearm() stored and the relay could not read back were parked again, with an attribute that no code wrote.
it('rearm() rejects an attribute that could not be read back, and leaves the record parked', async () => {
  await using world = await openPg()
  const { database } = world
  const store = sqlOutbox(database, { logger: silentLogger })
  await handle(transactionMiddleware(database), async () => {
    await store.append(database.executor(), [{ destination: 'events', message: new Message(new Uint8Array([1]), event('e1').attributes) }])
    return []
  })
  const claimed = await store.claim({ limit: 1, lease: 60_000 })
  await store.settle(claimed.map(({ id, token }) => ({ id, token, result: 'parked', error: 'not today' })))
  const error = await failureOf(store.rearm({ filter: {} }, { attributes: { extra: Number.NaN } }))
  expect(error).toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES', message: expect.stringMatching(/'extra'/) })
  expect(await world.query('SELECT state FROM ackord_outbox')).toEqual([{ state: 'parked' }])
})
