import { afterCommit, afterRollback, type Context, type Message, rootContext } from '@ackord/core'
import { trackedMessage } from '@ackord/testkit'
import { Redis as Ioredis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { fromIoredis, type TransactionOptions, transactionMiddleware } from '../../src/index.ts'
import { deliver, errorOf } from '../support/deliver.ts'
import { type HandlingWorld, openHandlingWorld, quiet } from '../support/handling-world.ts'
import { type RedisKind, redisKinds, redisUrl } from '../support/redis-clients.ts'

const [ioredis6] = redisKinds as readonly [RedisKind]

async function handleOne(
  world: HandlingWorld,
  handle: (message: Message, context: Context) => Promise<void>,
  options: TransactionOptions = {},
): Promise<ReturnType<typeof trackedMessage>> {
  const order = trackedMessage('m1')
  await deliver({ use: [transactionMiddleware(world.redis, { ...quiet, ...options })], handle }, order)
  return order
}

for (const kind of redisKinds) {
  describe(`transactionMiddleware() on ${kind.name}`, () => {
    it('B5: a key of the wrong type is found before anything is written', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key, command } = world
      const steps: string[] = []
      for (const wrong of ['type', 'counter', 'padded counter'] as const) {
        await command('SET', key('text'), wrong === 'padded counter' ? '007' : 'abc')
        const order = await handleOne(world, async (_, context) => {
          afterCommit(context, () => void steps.push('committed'))
          afterRollback(context, () => void steps.push('rolled back'))
          const writes = redis.commands(context)
          await writes.incr(key('count'))
          await (wrong === 'type' ? writes.hset(key('text'), 'f', 1) : writes.incr(key('text')))
          await writes.incr(key('after'))
        })
        expect(order.verdicts).toEqual(['nack'])
        expect(errorOf(order)).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
        expect(errorOf(order).message).toContain(key('text'))
      }
      expect(steps).toEqual(['rolled back', 'rolled back', 'rolled back'])
      expect(await world.keys()).toEqual(['text'])
    })

    it('B5: a command that fails in the middle is a partial commit: reported, rejected, not retried', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key, command } = world
      await command('SET', key('counter'), '9223372036854775807')
      const steps: string[] = []
      const order = await handleOne(world, async (_, context) => {
        afterCommit(context, () => void steps.push('committed'))
        afterRollback(context, () => void steps.push('rolled back'))
        const writes = redis.commands(context)
        await writes.set(key('before'), 'x')
        await writes.raw('INCR', [key('counter')])
        await writes.set(key('after'), 'x')
      })
      expect(order.verdicts).toEqual(['reject'])
      expect(errorOf(order)).toMatchObject({ code: 'ACKORD_PARTIAL_COMMIT', retryable: false })
      expect(errorOf(order).message).toContain(`INCR of '${key('counter')}'`)
      expect(steps).toEqual([])
      expect([await command('GET', key('before')), await command('GET', key('after'))]).toEqual(['x', null])
    })

    it('B7, B19: two transactions that read and write the same key concurrently lose no update, with watch and with expect', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key, command } = world
      const [watched, guarded, versioned] = [key('watched'), key('guarded'), key('versioned')]
      const messages = Array.from({ length: 20 }, (_, index) => trackedMessage(`m${index}`))
      const options: TransactionOptions = { ...quiet, retries: 100, watch: () => [watched] }
      await deliver(
        {
          use: [transactionMiddleware(redis, options)],
          router: { concurrency: 20 },
          async handle(_, context) {
            const [one, two, version] = [
              await command('GET', watched),
              await command('GET', guarded),
              await command('HGET', versioned, 'v'),
            ]
            redis.transaction(context)?.expect(guarded, two as string | null)
            redis.transaction(context)?.expectField(versioned, 'v', version as string | null)
            await redis.commands(context).set(watched, Number(one) + 1)
            await redis.commands(context).set(guarded, Number(two) + 1)
            await redis.commands(context).hset(versioned, 'v', Number(version) + 1)
          },
        },
        ...messages,
      )
      expect(new Set(messages.flatMap(({ verdicts }) => verdicts))).toEqual(new Set(['ack']))
      expect([await command('GET', watched), await command('GET', guarded), await command('HGET', versioned, 'v')]).toEqual([
        '20',
        '20',
        '20',
      ])
    })

    it('B17: a key in another slot is refused when it is written, both keys are named, and nothing is stored', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key } = world
      const order = await handleOne(world, async (_, context) => {
        await redis.commands(context).set(key('one'), 'x')
        expect(() => void redis.commands(context).set('{elsewhere}:two', 'x')).toThrow(
          `'{elsewhere}:two' is in another slot than '${key('one')}'`,
        )
        await redis.commands(context).set('{elsewhere}:two', 'x')
      })
      expect(order.verdicts).toEqual(['nack'])
      expect(errorOf(order)).toMatchObject({ code: 'ACKORD_CROSS_SLOT' })
      expect(await world.keys()).toEqual([])
    })

    it('keys without a tag commit too, if they are in one slot, and behind the prefix of the client', async () => {
      const keyPrefix = `p-${kind.name.replaceAll(' ', '')}-${process.pid}:`
      await using world = await openHandlingWorld(kind, { keyPrefix })
      await handleOne(world, async (_, context) => {
        await world.redis.commands(context).set('plain', 'x')
        await world.redis.commands(context).incr('plain:'.slice(0, 5))
      }).then(({ verdicts }) => expect(verdicts).toEqual(['reject']))
      await handleOne(world, async (_, context) => {
        await world.redis.commands(context).set('plain', 'y')
      }).then(({ verdicts }) => expect(verdicts).toEqual(['ack']))
      expect(await world.command('GET', `${keyPrefix}plain`)).toBe('y')
      await world.command('DEL', `${keyPrefix}plain`)
    })

    it('rollback: true undoes a commit that failed in the middle', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key, command } = world
      await command('SET', key('counter'), '9223372036854775807')
      await command('HSET', key('hash'), 'f', 'before')
      await command('PEXPIRE', key('hash'), '100000')
      await command('XADD', key('stream'), '1-1', 'f', 'before')
      const order = await handleOne(
        world,
        async (_, context) => {
          const writes = redis.commands(context)
          await writes.hset(key('hash'), { f: 'after', g: 'after' })
          await writes.persist(key('hash'))
          await writes.rpush(key('new'), 'x')
          await writes.xadd(key('stream'), { f: 'after' })
          await writes.xadd(key('stream'), { f: 'after' })
          await writes.raw('INCR', [key('counter')])
        },
        { rollback: true },
      )
      expect(order.verdicts).toEqual(['nack'])
      expect(errorOf(order).message).toContain('was undone')
      expect((await world.keys()).sort()).toEqual(['counter', 'hash', 'stream'])
      expect([await command('HLEN', key('hash')), await command('HGET', key('hash'), 'f')]).toEqual([1, 'before'])
      expect(Number(await command('PTTL', key('hash')))).toBeGreaterThan(50_000)
      expect(await command('XLEN', key('stream'))).toBe(1)
    })
  })
}

describe('transactionMiddleware()', () => {
  it('B5: a partial commit is not undone if a written key is too large to be saved', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key, command } = world
    await command('SET', key('counter'), '9223372036854775807')
    await command('SADD', key('large'), ...Array.from({ length: 1001 }, (_, index) => `m${index}`))
    const order = await handleOne(
      world,
      async (_, context) => {
        await redis.commands(context).sadd(key('large'), 'x')
        await redis.commands(context).raw('INCR', [key('counter')])
      },
      { rollback: true },
    )
    expect(errorOf(order)).toMatchObject({ code: 'ACKORD_PARTIAL_COMMIT' })
    expect(await command('SCARD', key('large'))).toBe(1002)
  })

  it('a partial commit is not undone if XADD has trimmed entries that cannot be restored', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key, command } = world
    await command('SET', key('counter'), '9223372036854775807')
    for (let index = 1; index <= 5; index += 1) await command('XADD', key('stream'), `${index}-1`, 'f', 'before')
    const order = await handleOne(
      world,
      async (_, context) => {
        await redis.commands(context).raw('XADD', [key('stream')], 'MAXLEN', 2, '*', 'f', 'after')
        await redis.commands(context).raw('INCR', [key('counter')])
      },
      { rollback: true },
    )
    expect(errorOf(order)).toMatchObject({ code: 'ACKORD_PARTIAL_COMMIT' })
  })

  it('a partial commit is not undone if a replaced stream is too long to be saved', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key, command } = world
    await command('SET', key('counter'), '9223372036854775807')
    await command('SET', key('text'), 'x')
    for (let index = 1; index <= 5; index += 1) await command('XADD', key('stream'), `${index}-1`, 'f', 'before')
    const order = await handleOne(
      world,
      async (_, context) => {
        await redis.commands(context).rename(key('text'), key('stream'))
        await redis.commands(context).raw('INCR', [key('counter')])
      },
      { rollback: true },
    )
    expect(errorOf(order)).toMatchObject({ code: 'ACKORD_PARTIAL_COMMIT' })
  })

  it('rollback: true accepts commands without a key', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key, command } = world
    const publish = { name: 'PUBLISH', args: [key('channel'), 'x'], keys: [], kind: 'any' } as const
    await redis.write(
      async (transaction) => {
        await redis.commands().set(key('text'), 'x')
        transaction.queue(publish)
      },
      { rollback: true },
    )
    expect(await command('GET', key('text'))).toBe('x')

    await command('SET', key('counter'), '9223372036854775807')
    const failing = redis.write(
      async (transaction) => {
        transaction.queue(publish)
        await redis.commands().raw('INCR', [key('counter')])
      },
      { rollback: true },
    )
    // A published message cannot be undone.
    await expect(failing).rejects.toMatchObject({ code: 'ACKORD_PARTIAL_COMMIT' })
  })

  it('rollback: true restores a stream of one entry that XADD has replaced', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key, command } = world
    await command('SET', key('counter'), '9223372036854775807')
    await command('XADD', key('stream'), '1-1', 'f', 'before')
    const order = await handleOne(
      world,
      async (_, context) => {
        await redis.commands(context).raw('XADD', [key('stream')], 'MAXLEN', 1, '*', 'f', 'after')
        await redis.commands(context).raw('INCR', [key('counter')])
      },
      { rollback: true },
    )
    expect(errorOf(order).message).toContain('was undone')
    expect(await command('XRANGE', key('stream'), '-', '+')).toEqual([['1-1', ['f', 'before']]])
  })

  it('B6: writes return nothing and there are no reads, so that no result is mistaken for an answer', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key } = world
    const order = await handleOne(world, async (_, context) => {
      // The write resolves immediately: otherwise awaiting it would deadlock with the commit, which waits for the handler.
      expect(await redis.commands(context).incr(key('count'))).toBeUndefined()
      for (const read of ['get', 'hget', 'exists', 'lrange', 'xrange']) expect(read in redis.commands(context)).toBe(false)
      expect(await world.command('GET', key('count'))).toBeNull()
    })
    expect(order.verdicts).toEqual(['ack'])
    expect(await world.command('GET', key('count'))).toBe('1')
  })

  it('checks a key against the type that earlier commands of the transaction give it', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key, command } = world
    await command('SET', key('a'), 'text')
    const order = await handleOne(world, async (_, context) => {
      const writes = redis.commands(context)
      await writes.del(key('a'))
      await writes.sadd(key('a'), 'x')
      await writes.set(key('b'), 'x')
      await writes.rename(key('b'), key('c'))
    })
    expect(order.verdicts).toEqual(['ack'])
    expect([await command('SCARD', key('a')), await command('GET', key('c'))]).toEqual([1, 'x'])
  })

  it('refuses a command that requires a missing key, before anything is written', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key } = world
    for (const write of ['rename', 'lset'] as const) {
      const order = await handleOne(world, async (_, context) => {
        await redis.commands(context).set(key('before'), 'x')
        if (write === 'rename') await redis.commands(context).rename(key('missing'), key('b'))
        else await redis.commands(context).lset(key('missing'), 0, 'x')
      })
      expect(errorOf(order).message).toContain('there is no such key')
    }
    expect(await world.keys()).toEqual([])
  })

  it('fails when its expectation never holds, and has written nothing', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key } = world
    let runs = 0
    const order = await handleOne(
      world,
      async (_, context) => {
        runs += 1
        redis.transaction(context)?.expect(key('missing'), 'something')
        await redis.commands(context).set(key('a'), 'x')
      },
      { retries: 2 },
    )
    expect([runs, order.verdicts]).toEqual([3, ['nack']])
    expect(errorOf(order)).toMatchObject({ code: 'ACKORD_TRANSACTION_CONFLICT' })
    expect(errorOf(order).message).toContain(key('missing'))
    expect(await world.keys()).toEqual([])
  })

  it('write() commits outside of a router, drops failed work, and is a part of the transaction around it', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key, command } = world
    expect(
      await redis.write(async () => {
        await redis.commands().set(key('outer'), 'x')
        await redis.write(async () => await redis.commands().set(key('inner'), 'x'))
        await redis
          .write(async () => {
            await redis.commands().set(key('failed'), 'x')
            throw new Error('no')
          })
          .catch(() => {})
        expect(await world.keys()).toEqual([])
        return 'result'
      }),
    ).toBe('result')
    const found = (await world.keys()).filter((name) => !name.startsWith('ackord-tx')).sort()
    expect(found).toEqual(['inner', 'outer'])
    expect(await command('GET', key('failed'))).toBeNull()
    const aborted = rootContext({ signal: AbortSignal.abort(new Error('stopped')) })
    await expect(redis.write(async () => {}, { context: aborted })).rejects.toThrow('stopped')
  })

  it('lets keys of different slots commit on a single server with slotCheck: cluster', async () => {
    const client = new Ioredis(redisUrl)
    const redis = fromIoredis(client, { slotCheck: 'cluster' })
    const [one, two] = [`one-${process.pid}`, `two-${process.pid}`]
    await redis.write(async (_, context) => {
      await redis.commands(context).set(one, 'x')
      await redis.commands(context).set(two, 'x')
    })
    expect(await client.mget(one, two)).toEqual(['x', 'x'])
    await client.del(one, two)
    client.disconnect()
  })

  it('watches also inside of another transaction', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key, command } = world
    let runs = 0
    await redis.write(async () => {
      runs += 1
      await redis.write(
        async () => {
          if (runs === 1) await command('SET', key('watched'), 'by another')
          await redis.commands().set(key('a'), runs)
        },
        { watch: [key('watched')] },
      )
    })
    expect([runs, await command('GET', key('a'))]).toEqual([2, '2'])
  })

  it('accepts a replayWindow with fractions of a millisecond', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key, command } = world
    await redis.write(async () => await redis.commands().set(key('a'), 'x'), { replayWindow: 1000.5 })
    expect(await command('GET', key('a'))).toBe('x')
  })

  it('runs no commit for a handler that wrote nothing', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const order = await handleOne(world, async () => {})
    expect(order.verdicts).toEqual(['ack'])
    expect(await world.keys()).toEqual([])
  })
})
