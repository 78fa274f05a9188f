import { isAckordError, Message, rootContext, silentLogger } from '@ackord/core'
import { MemoryOutboxStore, type OutboxAdmin, type OutboxStore } from '@ackord/outbox'
import { fromIoredis, type Redis, streamOutbox } from '@ackord/redis'
import { luaOutbox } from '@ackord/redis/lua-outbox'
import { inboxMiddleware, sqlOutbox } from '@ackord/sql'
import { Redis as Ioredis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { ownName } from '../../scripts/test-run.mjs'
import { mariadbOrders, type OrdersKind, postgresOrders, sqliteOrders } from '../testing/sql-orders.ts'
import { mark } from './odd-texts.ts'

const attributes = { id: 'e-1', type: 'order.placed', source: '/orders', specversion: '1.0' }
const eventOf = (size: number, more: object = {}) => new Message(new Uint8Array(size), { ...attributes, ...more })

async function failureOf(promise: Promise<unknown>): Promise<Error> {
  return await promise.then(
    () => expect.unreachable('It was taken.'),
    (error: Error) => error,
  )
}

const destination = 'events'
const defaultMaxSize = 5 * 1024 * 1024

/** For data and for attributes: a record of exactly the maximum size is stored and read back; one byte more is refused and nothing is stored. */
async function expectLimit(
  outbox: OutboxStore & OutboxAdmin,
  maxSize: number,
  append: (message: Message<Uint8Array>) => Promise<unknown>,
): Promise<void> {
  const most = maxSize - destination.length - Buffer.byteLength(JSON.stringify(attributes))
  await append(eventOf(most))
  // The attribute's name, quotes, colon and comma count as well.
  const subject = mark + 's'.repeat(most - '"subject":"",'.length - mark.length)
  for (const message of [eventOf(most + 1, { id: 'e-2' }), eventOf(1, { id: 'e-3', subject })]) {
    const error = await failureOf(append(message))
    expect(error).toMatchObject({ code: 'ACKORD_INVALID_OUTPUT', retryable: false })
    expect(error.message).toContain(`its size is ${maxSize + 1} bytes, and maxSize is ${maxSize}`)
    expect(error.message).not.toContain(mark)
  }
  expect((await outbox.stats()).destinations).toMatchObject([{ ready: 1 }])
  const [record] = await outbox.claim({ limit: 1, lease: 60_000 })
  expect(record?.message.data.byteLength).toBe(most)
}

function testLimits<Handle>(kind: OrdersKind<Handle>): void {
  describe(`sizes on ${kind.name}`, () => {
    it.each(['id', 'type', 'partitionkey', 'datacontenttype'])(
      'of %s are limited to 1,024 bytes, and the text says so and does not repeat it',
      async (name) => {
        await using home = await kind.open()
        const { database, close } = await home.connect()
        const outbox = sqlOutbox(database, { logger: silentLogger })
        const append = (value: string) =>
          database.write((transaction) => outbox.append(transaction, [{ destination: 'events', message: eventOf(1, { [name]: value }) }]))
        await append('x'.repeat(1024))
        const error = await failureOf(append(`${'é'.repeat(512)}${mark}`))
        expect(isAckordError(error, 'ACKORD_INVALID_ATTRIBUTES')).toBe(true)
        expect(error.message).toContain(`its ${name} is longer than 1024 bytes`)
        expect(error.message.length).toBeLessThan(400)
        expect((await outbox.stats()).destinations).toMatchObject([{ ready: 1 }])
        await close()
      },
    )

    it('of a message id and a consumer are limited too', async () => {
      await using home = await kind.open()
      const { database, close } = await home.connect()
      expect(() => inboxMiddleware(database, { consumer: 'c'.repeat(256) })).toThrow('consumer is longer than 255 bytes')
      const message = new Message(null, { ...attributes, id: 'x'.repeat(1025) })
      const inbox = inboxMiddleware(database, { consumer: 'orders' })(async () => [])
      const error = await failureOf(database.write((_, context) => inbox(message, message.context(context ?? rootContext()))))
      expect(error).toMatchObject({
        code: 'ACKORD_INVALID_ATTRIBUTES',
        retryable: false,
        message: expect.stringContaining('its id is longer than 1024 bytes'),
      })
      await close()
    })

    it('of a record are limited to maxSize: 5 MB by default are stored and come back, and a byte more is refused before anything is', async () => {
      await using home = await kind.open()
      const { database, close } = await home.connect()
      const outbox = sqlOutbox(database, { logger: silentLogger })
      await expectLimit(outbox, defaultMaxSize, (message) =>
        database.write((transaction) => outbox.append(transaction, [{ destination, message }])),
      )
      await close()
    })

    it('of an error text are limited: a long one is truncated when it is stored', async () => {
      await using home = await kind.open()
      const { database, close } = await home.connect()
      const outbox = sqlOutbox(database, { logger: silentLogger })
      await database.write((transaction) => outbox.append(transaction, [{ destination: 'events', message: eventOf(1) }]))
      const [claim] = await outbox.claim({ limit: 1, lease: 60_000 })
      if (claim === undefined) throw new Error('Expected one claimed record.')
      await outbox.settle([{ id: claim.id, token: claim.token, result: 'parked', error: 'é'.repeat(100_000) }])
      const { lastError = '' } = (await outbox.list({ state: 'parked' }, { limit: 1 })).records[0] ?? {}
      expect(lastError.length).toBeGreaterThan(100)
      expect(lastError.length).toBeLessThanOrEqual(10_000)
      await close()
    })
  })
}

testLimits(postgresOrders)
testLimits(mariadbOrders)
testLimits(sqliteOrders)

describe('sizes elsewhere', () => {
  it.each([
    { name: 'the Lua outbox', open: (redis: Redis, tag: string) => luaOutbox(redis, { tag, maxSize: 2000, logger: silentLogger }) },
    {
      name: 'the stream outbox',
      open: (redis: Redis, tag: string) => streamOutbox(redis, { tags: [tag], maxSize: 2000, logger: silentLogger }),
    },
  ])('of a record in $name are limited to maxSize, and a larger one is refused before anything is stored', async ({ open }) => {
    const client = new Ioredis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379')
    const redis = fromIoredis(client, { logger: silentLogger })
    const tag = `limits-${ownName()}`
    const outbox = open(redis, tag)
    await expectLimit(outbox, 2000, (message) => redis.write((transaction) => outbox.append(transaction, [{ destination, message }])))
    for (const key of await client.keys(`{${tag}*`)) await client.del(key)
    client.disconnect()
  })

  it('of a record in memory are limited to maxSize, and a larger one is refused before anything is stored', async () => {
    const outbox = new MemoryOutboxStore()
    await expectLimit(outbox, defaultMaxSize, async (message) => {
      const transaction = outbox.begin()
      await outbox.append(transaction, [{ destination, message }])
      transaction.commit()
    })
  })
})
