import { afterCommit, beginAttempt, type Context, isAckordError, type Middleware, RejectError, Router, silentLogger } from '@ackord/core'
import { deferred, recordingLogger, sourceOf, trackedMessage, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type InboxOptions, inboxMiddleware, transactionMiddleware } from '../../src/index.ts'
import { deliver, errorOf, placed } from '../support/deliver.ts'
import { type HandlingWorld, openHandlingWorld, quiet } from '../support/handling-world.ts'
import { type RedisKind, redisKinds } from '../support/redis-clients.ts'
import { until } from '../support/until.ts'

const [ioredis6] = redisKinds as readonly [RedisKind]

function inboxAndTransaction(world: HandlingWorld, options: Partial<InboxOptions> = {}): Middleware[] {
  return [inboxMiddleware(world.redis, world.inbox(options)), transactionMiddleware(world.redis, quiet)]
}

/** A handler that counts its calls and its committed effects. */
function countingIn(world: HandlingWorld) {
  let calls = 0
  return {
    calls: () => calls,
    effects: async () => Number((await world.command('GET', world.key('effects'))) ?? 0),
    async handle(_: unknown, context: Parameters<typeof world.redis.transaction>[0]) {
      calls += 1
      await world.redis.commands(context).incr(world.key('effects'))
    },
  }
}

/** The only marker under the tag, with its value and expiry. */
async function markerOf(world: HandlingWorld): Promise<{ readonly key: string; readonly held: string; readonly expiry: number }> {
  const names = await world.keys('inbox:')
  expect(names).toHaveLength(1)
  const key = `{${world.tag}}:${names[0]}`
  return { key, held: String(await world.command('GET', key)), expiry: Number(await world.command('PTTL', key)) }
}

for (const kind of redisKinds) {
  describe(`inboxMiddleware() on ${kind.name}`, () => {
    it('B1: after a crash between lease and commit the message is not a duplicate: it is busy, and then handled', async () => {
      await using world = await openHandlingWorld(kind)
      const counting = countingIn(world)
      const use = inboxAndTransaction(world, { lease: 20_000 })
      // Simulates a crashed process: its handler never ends.
      const begun = deferred()
      const abandoned = deliver({ use, handle: () => new Promise(() => begun.resolve()) }, trackedMessage('m1'))
      abandoned.catch(() => {})
      await begun.promise

      const busy = trackedMessage('m1')
      await deliver({ use, handle: counting.handle }, busy)
      expect(busy.verdicts).toEqual(['nack'])
      expect(errorOf(busy)).toMatchObject({ code: 'ACKORD_INBOX_BUSY' })
      const { options } = busy.calls[0] ?? {}
      expect(options?.retryAfter).toBeGreaterThan(1_000)
      expect(options?.retryAfter).toBeLessThanOrEqual(20_000)

      // The lease expires.
      await world.command('DEL', (await markerOf(world)).key)
      const again = trackedMessage('m1')
      await deliver({ use, handle: counting.handle }, again)
      expect([again.verdicts, counting.calls(), await counting.effects()]).toEqual([['ack'], 1, 1])
    })

    it('B3: a worker whose lease was taken over or has expired cannot commit', async () => {
      await using world = await openHandlingWorld(kind)
      const counting = countingIn(world)
      for (const fate of ['taken over', 'run out'] as const) {
        const order = trackedMessage(`m ${fate}`)
        const use = inboxAndTransaction(world)
        await deliver(
          {
            use,
            async handle(message, context) {
              await counting.handle(message, context)
              const { key } = await markerOf(world)
              if (fate === 'run out') await world.command('DEL', key)
              else await world.command('SET', key, 'another', 'PX', '60000')
            },
          },
          order,
        )
        expect(order.verdicts).toEqual(['nack'])
        expect(errorOf(order)).toMatchObject({ code: 'ACKORD_LEASE_LOST' })
        // The worker also leaves the lease of the other worker alone.
        if (fate === 'taken over') expect((await markerOf(world)).held).toBe('another')
        for (const name of await world.keys('inbox:')) await world.command('DEL', `{${world.tag}}:${name}`)
      }
      expect(await counting.effects()).toBe(0)
    })

    it('B5: after a partial commit the message is parked, at each delivery, and never acked as a duplicate', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key } = world
      await world.command('SET', key('counter'), '9223372036854775807')
      const use = inboxAndTransaction(world)
      for (let delivery = 1; delivery <= 2; delivery += 1) {
        const order = trackedMessage('m1')
        await deliver(
          {
            use,
            async handle(_, context) {
              await redis.commands(context).incr(key('before'))
              await redis.commands(context).raw('INCR', [key('counter')])
            },
          },
          order,
        )
        expect(order.verdicts).toEqual(['reject'])
        expect(errorOf(order)).toMatchObject({ code: 'ACKORD_PARTIAL_COMMIT' })
      }
      expect(await world.command('GET', key('before'))).toBe('1')
      expect((await markerOf(world)).held).toMatch(/^partial:/)
    })

    it('commits many concurrent messages independently of each other', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key } = world
      await world.command('SET', key('text'), 'text')
      await world.command('SET', key('counter'), '9223372036854775807')
      const orders = Array.from({ length: 120 }, (_, index) => trackedMessage(`m${index}`, { data: index }))
      await deliver(
        {
          use: inboxAndTransaction(world),
          router: { concurrency: 60 },
          async handle({ data }, context) {
            const writes = redis.commands(context)
            await writes.set(key('order', String(data)), 'x')
            if (Number(data) % 10 === 1) await writes.sadd(key('text'), 'x')
            if (Number(data) % 10 === 2) await writes.raw('INCR', [key('counter')])
            if (Number(data) % 10 === 3) redis.transaction(context)?.expect(key('missing'), 'x')
            if (Number(data) % 10 === 4) throw new Error('no')
          },
        },
        ...orders,
      )
      const expected = ['ack', 'nack', 'reject', 'nack', 'nack']
      for (const [index, { verdicts }] of orders.entries()) {
        expect([index, verdicts]).toEqual([index, [expected[index % 10] ?? 'ack']])
        const written = await world.command('EXISTS', key('order', String(index)))
        expect([index, written]).toEqual([index, [1, 3, 4].includes(index % 10) ? 0 : 1])
      }
    })

    it('sends a script again that the server has forgotten', async () => {
      await using world = await openHandlingWorld(kind)
      const counting = countingIn(world)
      const use = inboxAndTransaction(world)
      for (let index = 0; index < 3; index += 1) {
        const order = trackedMessage(`m${index}`)
        await deliver({ use, handle: counting.handle }, order)
        expect(order.verdicts).toEqual(['ack'])
        if (!kind.cluster) await world.command('SCRIPT', 'FLUSH')
      }
      expect(await counting.effects()).toBe(3)
    })
  })
}

describe('inboxMiddleware()', () => {
  it('B2: a duplicate that arrives while the first is handled is nacked, and handled if the first fails', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const counting = countingIn(world)
    const counted: unknown[] = []
    const use = inboxAndTransaction(world, {
      metrics: { count: (...call: unknown[]) => void counted.push(call), observe() {}, gauge() {} },
    })
    const begun = deferred()
    const fail = deferred()
    const first = trackedMessage('m1')
    const running = deliver(
      {
        use,
        async handle() {
          begun.resolve()
          await fail.promise
          throw new Error('no')
        },
      },
      first,
    )
    await begun.promise
    const busy = trackedMessage('m1')
    await deliver({ use, handle: counting.handle }, busy)
    expect([busy.verdicts, counting.calls()]).toEqual([['nack'], 0])
    expect(counted).toEqual([['ackord.inbox.busy', 1, { consumer: 'orders' }]])
    fail.resolve()
    await running
    const again = trackedMessage('m1')
    await deliver({ use, handle: counting.handle }, again)
    expect([first.verdicts, again.verdicts, await counting.effects()]).toEqual([['nack'], ['ack'], 1])
  })

  it('B4: a failure releases the lease at once, also if a forced stop aborts the signal of the handler', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const waiting = deferred()
    const order = trackedMessage('m1')
    const router = new Router({ source: '/orders', logger: silentLogger, shutdownTimeout: 0 }).use(...inboxAndTransaction(world)).handle({
      type: 'order.place',
      handle: async (_, { signal }) => {
        waiting.resolve()
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        throw new Error('aborted')
      },
    })
    const running = router.run(sourceOf(order))
    await waiting.promise
    expect((await markerOf(world)).expiry).toBeGreaterThan(10_000)
    await router.stop()
    await running
    expect(order.verdicts).toEqual(['nack'])
    expect(await world.keys('inbox:')).toEqual([])
  })

  it('B4: releases the lease before the nack, so that the message can be redelivered at once', async () => {
    await using world = await openHandlingWorld(ioredis6)
    for (const fate of ['throws', 'nacks', 'rejects'] as const) {
      let markers: string[] | undefined
      const order = trackedMessage('m1', {
        onVerdict: async () => {
          markers = await world.keys('inbox:')
        },
      })
      await deliver(
        {
          use: inboxAndTransaction(world),
          async handle(message) {
            if (fate === 'throws') throw new Error('no')
            if (fate === 'nacks') await message.nack(new Error('no'))
            else await message.reject(new RejectError('never'))
          },
        },
        order,
      )
      expect([fate, order.verdicts, markers]).toEqual([fate, [fate === 'rejects' ? 'reject' : 'nack'], []])
    }
  })

  it('B3: renews the lease of a slow handler, with one timer for all, and stops with it', async () => {
    const runtime = new VirtualRuntime()
    await using world = await openHandlingWorld(ioredis6, { options: { runtime } })
    const lease = 30_000
    const ends = deferred()
    let begun = 0
    const orders = [trackedMessage('m1'), trackedMessage('m2'), trackedMessage('m3')]
    const running = deliver(
      {
        use: inboxAndTransaction(world, { lease }),
        router: { concurrency: 3 },
        async handle() {
          begun += 1
          await ends.promise
        },
      },
      ...orders,
    )
    await until('all are begun', () => begun === 3)
    expect(runtime.timers).toBe(1)
    const markers = (await world.keys('inbox:')).map((name) => `{${world.tag}}:${name}`)
    for (const marker of markers) await world.command('PEXPIRE', marker, '15000')
    const lost = markers[2] as string
    await world.command('SET', lost, 'another', 'PX', '15000')
    await runtime.advance(lease / 3)
    await runtime.advance(lease / 3)
    const expiryOf = async (marker: string) => Number(await world.command('PTTL', marker))
    await until(
      'they are renewed',
      async () => (await expiryOf(markers[0] as string)) > 20_000 && (await expiryOf(markers[1] as string)) > 20_000,
    )
    expect(await expiryOf(lost)).toBeLessThanOrEqual(15_000)
    ends.resolve()
    await running
    expect(orders.flatMap(({ verdicts }) => verdicts).sort()).toEqual(['ack', 'ack', 'nack'])
    // The marker of a completed message has its own retention and is not renewed.
    await runtime.advance(lease)
    expect(runtime.timers).toBe(0)
    expect(await expiryOf(markers[0] as string)).toBeGreaterThan(80_000_000)
  })

  it('B16: the key is made of tag, consumer, source and id, and an id is required', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const counting = countingIn(world)
    const odd = ['{', '}', 'a:b', 'a b', '{x}', '{}', '*', '訂單', 'x'.repeat(5000)]
    for (const id of [...odd, ...odd]) {
      const order = trackedMessage(id)
      await deliver({ use: inboxAndTransaction(world, { consumer: 'c:{o} n' }), handle: counting.handle }, order)
      expect(order.verdicts).toEqual(['ack'])
    }
    expect(await counting.effects()).toBe(odd.length)
    for (const name of await world.keys('inbox:')) expect(name).toMatch(/^inbox:c%3A\{o\} n:[\w-]{22}$/)

    for (const attributes of [{ id: undefined }, { id: '' }, { id: 5 as never }]) {
      const order = trackedMessage('m1', { attributes })
      await deliver({ use: inboxAndTransaction(world), handle: counting.handle }, order)
      expect(order.verdicts).toEqual(['reject'])
    }
    expect(await counting.effects()).toBe(odd.length)
  })

  it('B29: the retention begins with the commit, not with the first delivery', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const retention = 500_000
    let during: number | undefined
    await deliver(
      {
        use: inboxAndTransaction(world, { retention, lease: 10_000 }),
        async handle() {
          during = (await markerOf(world)).expiry
        },
      },
      trackedMessage('m1'),
    )
    expect(during).toBeLessThanOrEqual(10_000)
    const { held, expiry } = await markerOf(world)
    expect(held).toMatch(/^done:/)
    expect(expiry).toBeGreaterThan(retention - 10_000)
    expect(expiry).toBeLessThanOrEqual(retention)
  })

  it('B17: business keys in another slot than the marker are refused, and both are named', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const order = trackedMessage('m1')
    await deliver(
      { use: inboxAndTransaction(world), handle: async (_, context) => await world.redis.commands(context).set('{b}:1', 'x') },
      order,
    )
    expect(errorOf(order)).toMatchObject({ code: 'ACKORD_CROSS_SLOT' })
    expect(errorOf(order).message).toMatch(/'\{b\}:1' is in another slot than '\{t-.*\}:inbox:orders:/)
  })

  it('takes the tag from the message', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, tag } = world
    const tagOf = (message: { readonly id: string | undefined }) => `${tag}-${message.id}`
    for (const id of ['a', 'b']) {
      const order = trackedMessage(id)
      const use = [inboxMiddleware(redis, { consumer: 'orders', tag: tagOf, retention: 1_000 }), transactionMiddleware(redis, quiet)]
      await deliver(
        { use, handle: async (_, context) => await redis.commands(context).setex(redis.key(`${tag}-${id}`, 'order'), 1, 'x') },
        order,
      )
      expect(order.verdicts).toEqual(['ack'])
      expect(await world.command('GET', `{${tag}-${id}}:order`)).toBe('x')
    }
  })

  it('calls onDuplicate for each duplicate, and the option key identifies messages', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const counting = countingIn(world)
    const duplicates: unknown[] = []
    const counted: unknown[] = []
    const use = inboxAndTransaction(world, {
      key: (message) => String(message.attributes['orderid']),
      onDuplicate: (message) => void duplicates.push(message.id),
      metrics: { count: (...call: unknown[]) => void counted.push(call), observe() {}, gauge() {} },
    })
    for (const id of ['m1', 'm2']) await deliver({ use, handle: counting.handle }, trackedMessage(id, { attributes: { orderid: 'o-1' } }))
    expect([await counting.effects(), duplicates]).toEqual([1, ['m2']])
    expect(counted).toEqual(['handled', 'duplicates'].map((name) => [`ackord.inbox.${name}`, 1, { consumer: 'orders' }]))
  })

  it('refuses outputs without an outbox before anything is written', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const order = trackedMessage('m1')
    await deliver(
      {
        use: inboxAndTransaction(world),
        async handle(_, context) {
          await world.redis.commands(context).set(world.key('a'), 'x')
          return [placed(1)]
        },
      },
      order,
    )
    expect(errorOf(order)).toMatchObject({ code: 'ACKORD_INVALID_OUTPUT' })
    expect(await world.keys()).toEqual([])
  })

  it('records a message for which a middleware inside of it did not call the handler', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const filter: Middleware = () => async () => []
    const order = trackedMessage('m1')
    const [inbox, transaction] = inboxAndTransaction(world) as [Middleware, Middleware]
    await deliver({ use: [inbox, filter, transaction], handle: async () => {} }, order)
    expect(order.verdicts).toEqual(['ack'])
    expect((await markerOf(world)).held).toMatch(/^done:/)
  })

  it('B4: releases the lease when a middleware inside of it throws instead of rejecting', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const throwing: Middleware = () => () => {
      throw new Error('no')
    }
    const order = trackedMessage('m1')
    const [inbox, transaction] = inboxAndTransaction(world) as [Middleware, Middleware]
    await deliver({ use: [inbox, throwing, transaction], handle: async () => {} }, order)
    expect([order.verdicts, await world.keys()]).toEqual([['nack'], []])
  })

  it('optimistic: of messages that are handled concurrently one takes effect, and the others are acked as duplicates', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const counting = countingIn(world)
    const duplicates: unknown[] = []
    const orders = Array.from({ length: 8 }, () => trackedMessage('m1'))
    await deliver(
      {
        use: inboxAndTransaction(world, { mode: 'optimistic', onDuplicate: (message) => void duplicates.push(message) }),
        router: { concurrency: 8 },
        handle: counting.handle,
      },
      ...orders,
    )
    expect(orders.flatMap(({ verdicts }) => verdicts)).toEqual(Array.from({ length: 8 }, () => 'ack'))
    expect(await counting.effects()).toBe(1)
    expect(counting.calls()).toBeGreaterThan(1)
    expect(duplicates).toHaveLength(7)
  })

  it('mark-first: marks a message as done before it is handled, and removes the mark when it fails', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const counting = countingIn(world)
    const use = inboxAndTransaction(world, { mode: 'mark-first', retention: 60_000 })
    const failing = trackedMessage('m1')
    let during: string | undefined
    await deliver(
      {
        use,
        async handle() {
          during = (await markerOf(world)).held
          throw new Error('no')
        },
      },
      failing,
    )
    expect(during).toMatch(/^done:/)
    expect(await world.keys('inbox:')).toEqual([])
    for (const verdicts of [['ack'], ['ack']]) {
      const order = trackedMessage('m1')
      await deliver({ use, handle: counting.handle }, order)
      expect(order.verdicts).toEqual(verdicts)
    }
    expect([failing.verdicts, await counting.effects()]).toEqual([['nack'], 1])
  })

  it('optimistic: a message that a worker of another mode has is not a duplicate', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key } = world
    const optimistic = trackedMessage('m1')
    const begun = deferred()
    const exclusive = deferred()
    const running = deliver(
      {
        use: inboxAndTransaction(world, { mode: 'optimistic' }),
        async handle(_, context) {
          await redis.commands(context).incr(key('effects'))
          begun.resolve()
          await exclusive.promise
        },
      },
      optimistic,
    )
    await begun.promise
    await deliver(
      {
        use: inboxAndTransaction(world),
        async handle() {
          exclusive.resolve()
          await running
          throw new Error('no')
        },
      },
      trackedMessage('m1'),
    )
    expect(optimistic.verdicts).toEqual(['nack'])
    expect(errorOf(optimistic)).toMatchObject({ code: 'ACKORD_LEASE_LOST' })
    expect(await world.keys()).toEqual([])
  })

  for (const mode of ['exclusive', 'optimistic'] as const) {
    for (const how of ['at once', 'one after the other', 'not awaited'] as const) {
      it(`${mode}: commits with one transaction of a handler, and a second one is refused, never taken for the first: ${how}`, async () => {
        await using world = await openHandlingWorld(ioredis6)
        const { redis, key } = world
        const order = trackedMessage('m1')
        const writing: Promise<void>[] = []
        const writeTo = (part: string, context: Context) => {
          const written = redis.write(async () => await redis.commands().set(key(part), 'x'), { context })
          writing.push(written)
          return written
        }
        await deliver(
          {
            use: [inboxMiddleware(redis, world.inbox({ mode }))],
            async handle(_, context) {
              if (how === 'at once') await Promise.all([writeTo('a', context), writeTo('b', context)])
              else if (how === 'not awaited') void writeTo('a', context).catch(() => {})
              else for (const part of ['a', 'b']) await writeTo(part, context)
            },
          },
          order,
        )
        expect(order.verdicts).toEqual(['reject'])
        expect(errorOf(order)).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
        const told = (await Promise.allSettled(writing)).filter(({ status }) => status === 'fulfilled').length
        expect(told).toBeLessThan(2)
        expect(await world.command('EXISTS', key('a'), key('b'))).toBe(told)
      })
    }
  }

  it('a callback after the commit may have a transaction of its own', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key } = world
    const order = trackedMessage('m1')
    await deliver(
      {
        use: inboxAndTransaction(world),
        async handle(_, context) {
          afterCommit(context, async (outside) => {
            await redis.write(async () => await redis.commands().set(key('after'), 'x'), { context: outside })
          })
        },
      },
      order,
    )
    expect([order.verdicts, await world.command('GET', key('after'))]).toEqual([['ack'], 'x'])
  })

  it('B3: a retry between inbox and transaction cannot commit after the lease was released', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key } = world
    const again: Middleware = (next) => (message, context) => next(message, context).catch(() => next(message, beginAttempt(context)))
    const [inbox, transaction] = inboxAndTransaction(world) as [Middleware, Middleware]
    const order = trackedMessage('m1')
    let calls = 0
    await deliver(
      {
        use: [inbox, again, transaction],
        async handle(_, context) {
          calls += 1
          await redis.commands(context).incr(key('effects'))
          if (calls === 1) throw new Error('no')
        },
      },
      order,
    )
    expect(order.verdicts).toEqual(['nack'])
    expect(errorOf(order)).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
    expect(await world.keys()).toEqual([])
  })

  it('is refused at the start if it is inside of the transaction that it should fence', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const use = inboxAndTransaction(world).reverse()
    const starting = deliver({ use, handle: async () => {} }, trackedMessage('m1'))
    const error = await starting.catch((thrown: unknown) => thrown)
    expect(isAckordError(error, 'ACKORD_MIDDLEWARE_ORDER')).toBe(true)
  })

  it('checks its options when it is made', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const make = (options: object) => () => inboxMiddleware(world.redis, { consumer: 'orders', ...options } as never)
    expect(make({ consumer: '' })).toThrow('consumer')
    expect(make({ mode: 'exactly-once' })).toThrow('mode')
    expect(make({ lease: 0 })).toThrow('lease')
    expect(make({ retention: -1 })).toThrow('retention')
    expect(make({ tag: '' })).toThrow('tag')
    expect(make({ window: 5 })).toThrow("no option 'window'")
  })

  it('logs a lease that cannot be released', async () => {
    const logger = recordingLogger()
    await using world = await openHandlingWorld(ioredis6, { options: { logger } })
    const order = trackedMessage('m1')
    await deliver(
      {
        use: inboxAndTransaction(world),
        async handle() {
          const { key } = await markerOf(world)
          await world.command('DEL', key)
          await world.command('SADD', key, 'not a text')
          throw new Error('no')
        },
      },
      order,
    )
    expect(order.verdicts).toEqual(['nack'])
    expect(logger.lines.map(({ text }) => text)).toContainEqual(expect.stringContaining('could not be released'))
  })
})
