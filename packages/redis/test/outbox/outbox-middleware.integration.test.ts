import { defineEvent, isAckordError, Message, type Middleware, Router, rootContext, silentLogger } from '@ackord/core'
import type { NewEvents } from '@ackord/outbox'
import { sourceOf, trackedMessage } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { inboxMiddleware, outboxMiddleware, transactional, transactionMiddleware } from '../../src/index.ts'
import { deliver, errorOf, placed } from '../support/deliver.ts'
import { openHandlingWorld, quiet } from '../support/handling-world.ts'
import { type RedisKind, redisKinds } from '../support/redis-clients.ts'

const [ioredis6] = redisKinds as readonly [RedisKind]

describe('outboxMiddleware()', () => {
  it('B30: marshals all events before it stores the first, so that a part of them never commits, even if the error is caught', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, outbox } = world
    const forgiving: Middleware = (next) => async (message, context) => await next(message, context).catch(() => [])
    const order = trackedMessage('m1')
    await deliver(
      {
        use: [transactionMiddleware(redis, quiet), forgiving, outboxMiddleware(redis, { outbox, destination: 'events' })],
        async handle(_, context) {
          await redis.commands(context).set(world.key('order'), 'placed')
          return [placed(1), placed({ amount: 5n }), placed(3)]
        },
      },
      order,
    )
    expect(order.verdicts).toEqual(['ack'])
    expect([await world.command('GET', world.key('order')), await world.events()]).toEqual(['placed', []])
  })

  it('fails before the handler runs if there is no transaction', async () => {
    await using world = await openHandlingWorld(ioredis6)
    let called = false
    const process = outboxMiddleware(world.redis, { outbox: world.outbox, destination: 'events' })(async () => {
      called = true
      return []
    })
    const error = await process(new Message(null, { id: 'm1', type: 'a', source: '/' }), rootContext()).catch((thrown: unknown) => thrown)
    expect([isAckordError(error, 'ACKORD_TRANSACTION_REQUIRED'), called]).toEqual([true, false])
  })

  it('passes the delay of an output to the outbox', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, outbox } = world
    const overdue = defineEvent('order.overdue')
    const appended: NewEvents[] = []
    const watched: typeof outbox = {
      async append(transaction, events) {
        appended.push(events)
        await outbox.append(transaction, events)
      },
    }
    await deliver(
      {
        use: [transactional(redis, { inbox: world.inbox(), outbox: { outbox: watched, destination: 'events' } })],
        handle: async () => [placed(1), overdue({}, { source: '/orders', delay: 60_000 })],
      },
      trackedMessage('m1'),
    )
    expect(appended).toEqual([[expect.objectContaining({ delay: undefined }), expect.objectContaining({ delay: 60_000 })]])
  })

  it('passes no output on', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, outbox } = world
    const router = new Router({ source: '/orders', logger: silentLogger })
      .use(transactional(redis, { inbox: world.inbox(), outbox: { outbox, destination: 'events' } }))
      .handle({ type: 'order.place', handle: async () => [placed(1)] })
    const passedOn: unknown[] = []
    for await (const output of router.pipe(sourceOf(trackedMessage('m1')).messages({ signal: new AbortController().signal })))
      passedOn.push(output)
    expect(passedOn).toEqual([])
    expect(await world.events()).toHaveLength(1)
  })

  it('settles outputs that have an acking of their own with the transaction', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, outbox } = world
    for (const fails of [false, true]) {
      const passedOn = trackedMessage('other', { attributes: { type: 'order.placed' } })
      const order = trackedMessage('m1')
      const failing: Middleware = (next) => async (message, context) => {
        const outputs = await next(message, context)
        if (fails) throw new Error('no')
        return outputs
      }
      await deliver(
        {
          use: [transactionMiddleware(redis, quiet), failing, outboxMiddleware(redis, { outbox, destination: 'events' })],
          handle: async () => [passedOn.message],
        },
        order,
      )
      const verdict = fails ? 'nack' : 'ack'
      expect([order.verdicts, passedOn.verdicts]).toEqual([[verdict], [verdict]])
    }
  })

  it('is refused in the wrong position when the router starts', async () => {
    await using world = await openHandlingWorld(ioredis6)
    await using other = await openHandlingWorld(ioredis6)
    const { redis } = world
    const outbox = outboxMiddleware(redis, { outbox: world.outbox, destination: 'events' })
    const inbox = inboxMiddleware(redis, world.inbox())
    const transaction = transactionMiddleware(redis, quiet)
    const wrong = [
      [outbox, transaction],
      [inbox, outbox],
      [outbox, inbox, transaction],
      [inboxMiddleware(other.redis, other.inbox()), transaction, outbox],
    ]
    for (const use of wrong) {
      const error = await deliver({ use, handle: async () => {} }, trackedMessage('m1')).catch((thrown: unknown) => thrown)
      expect(isAckordError(error, 'ACKORD_MIDDLEWARE_ORDER')).toBe(true)
    }
  })

  it('checks its options when it is made', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, outbox } = world
    expect(() => outboxMiddleware(redis, { outbox: {} as never, destination: 'a' })).toThrow('outbox.append')
    expect(() => outboxMiddleware(redis, { outbox, destination: '' })).toThrow('destination')
    expect(() => outboxMiddleware(redis, { outbox, destination: 'a', stream: 'b' } as never)).toThrow("no option 'stream'")
    expect(() => transactional(redis, { inbox: world.inbox(), outbox: { outbox, destination: 'a' }, retry: 1 } as never)).toThrow('retry')
  })

  it('rejects with the error of an event that the store refuses, and commits nothing', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis } = world
    const order = trackedMessage('m1')
    const refusing = { append: async () => await Promise.reject(new Error('the store is full')) }
    await deliver(
      {
        use: [transactional(redis, { inbox: world.inbox(), outbox: { outbox: refusing, destination: 'events' } })],
        async handle(_, context) {
          await redis.commands(context).set(world.key('order'), 'placed')
          return [placed(1)]
        },
      },
      order,
    )
    expect([order.verdicts, errorOf(order).message, await world.keys()]).toEqual([['nack'], 'the store is full', []])
  })
})
