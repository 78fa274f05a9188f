import { bytesMarshaler, Message, Router, silentLogger } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import { sourceOf, trackedMessage } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { commandHandlerWithOutbox, outboxMiddleware, sqlOutbox, type TransactionalOptions, transactional } from '../../src/index.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { event, failureOf, openPg } from '../support/world.ts'

const destination = 'events'
/** Includes all attributes that a router or a marshaler would add. */
const attributes = {
  ...event('e1').attributes,
  time: '2026-01-01T00:00:00Z',
  correlationid: 'c',
  datacontenttype: 'application/octet-stream',
}
/** The size of an event without data. */
const bare = destination.length + Buffer.byteLength(JSON.stringify(attributes))
const maxSize = bare + 1000
const refused = { code: 'ACKORD_INVALID_OUTPUT', retryable: false, message: expect.stringContaining(`maxSize is ${maxSize}`) }

function recordOf(size: number): NewOutboxRecord {
  return { destination, message: new Message(new Uint8Array(size), attributes) }
}

function testMaxSize<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  describe(`maxSize on ${name}`, () => {
    it.each(['alone', 'in a group'])(
      'a message whose event is one byte too large is rejected %s, and none of its events is stored',
      async (how) => {
        await using world = await open()
        const { database } = world
        const options: TransactionalOptions = {
          inbox: { consumer: 'orders' },
          outbox: { destination, maxSize, marshaler: bytesMarshaler },
          transaction: { logger: silentLogger },
          groupCommit: how === 'alone' ? undefined : { size: 10, groups: 1 },
        }
        const handler = commandHandlerWithOutbox(
          database,
          { type: 'order.place', source: '/orders' },
          async ({ id, size }: { readonly id: string; readonly size: number }, transaction) => {
            await world.insert(transaction, id)
            return [new Message(new Uint8Array(size), attributes)]
          },
        )
        const orders = [1000, 1001, 0].map((size) => trackedMessage(`m${size}`, { data: { id: `o${size}`, size } }))
        await new Router({ source: '/orders', logger: silentLogger, concurrency: 10 })
          .use(transactional(database, options))
          .handle(handler)
          .run(sourceOf(...orders))
        expect(orders.map(({ verdicts }) => verdicts)).toEqual([['ack'], ['reject'], ['ack']])
        expect(orders[1]?.calls[0]?.error).toMatchObject(refused)
        expect(await world.counts()).toEqual([2, 2, 2])
        const stored = await sqlOutbox(database, { logger: silentLogger }).claim({ limit: 10, lease: 1000 })
        expect(stored.map(({ message }) => message.data.byteLength).toSorted()).toEqual([0, 1000])
      },
    )

    it('append() rejects a record in a transaction of the caller before the statement, so that the transaction can continue', async () => {
      await using world = await open()
      const outbox = sqlOutbox(world.database, { maxSize, logger: silentLogger })
      await world.begin(async (transaction) => {
        await world.insert(transaction, '1')
        expect(await failureOf(outbox.append(transaction, [recordOf(1), recordOf(1001)]))).toMatchObject(refused)
        await outbox.append(transaction, [recordOf(1000)])
      })
      expect(await world.counts()).toEqual([1, 0, 1])
      await expect(world.database.write((transaction) => outbox.append(transaction, [recordOf(1001)]))).rejects.toMatchObject(refused)
      expect(await world.counts()).toEqual([1, 0, 1])
    })

    it('does not prevent operators from re-arming stored records, whatever their own limit is', async () => {
      await using world = await open()
      await world.database.write((transaction) => sqlOutbox(world.database).append(transaction, [recordOf(2000)]))
      const operators = sqlOutbox(world.database, { maxSize: 1, logger: silentLogger })
      const [claim] = await operators.claim({ limit: 1, lease: 60_000 })
      if (claim === undefined) throw new Error('The claim returned no record.')
      await operators.settle([{ id: claim.id, token: claim.token, result: 'parked', error: 'no' }])
      expect(await operators.rearm({ ids: [claim.id] }, { destination: 'elsewhere' })).toBe(1)
      const [again] = await operators.claim({ limit: 1, lease: 60_000 })
      expect([again?.destination, again?.message.data.byteLength]).toEqual(['elsewhere', 2000])
    })
  })
}

onEachClient(testMaxSize)

it.each([0, -1, 1.5, Number.NaN, Infinity])('maxSize cannot be %s, which is reported by the constructor', async (wrong) => {
  await using world = await openPg({ empty: true })
  const { database } = world
  const outbox = { destination, maxSize: wrong }
  for (const make of [
    () => sqlOutbox(database, { maxSize: wrong }),
    () => outboxMiddleware(database, outbox),
    () => transactional(database, { inbox: { consumer: 'orders' }, outbox }),
  ])
    expect(make).toThrow(/maxSize.* must be a whole number, 1 or more/)
})
