import { deferred, type Fault, recordingLogger, startFaultProxy, trackedMessage } from '@ackord/testkit'
import { Redis as Ioredis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { fromIoredis, inboxMiddleware, transactionMiddleware } from '../../src/index.ts'
import { commitScript } from '../../src/transaction/commit-script.ts'
import { deliver, errorOf } from '../support/deliver.ts'
import { openHandlingWorld, quiet } from '../support/handling-world.ts'
import { type RedisKind, redisKinds, redisUrl } from '../support/redis-clients.ts'
import { until } from '../support/until.ts'

const [ioredis6] = redisKinds as readonly [RedisKind]
const single = redisKinds.filter(({ cluster }) => !cluster)

/** Whether the bytes contain a commit: the digest of the script or its full source. */
function isCommit(bytes: Buffer): boolean {
  return bytes.includes(commitScript.sha) || bytes.includes('local rule, retention')
}

/** Redis behind a proxy that applies the fault to the first commit only. */
async function openFaulty(kind: RedisKind, fault: Fault, deadline = 3000) {
  let armed = true
  const proxy = await startFaultProxy(redisUrl, (bytes) => {
    if (!armed || !isCommit(bytes) || bytes.includes('LOAD')) return 'pass'
    armed = false
    return fault
  })
  const world = await openHandlingWorld(kind, { url: proxy.url, options: { deadline } })
  // Loads the script first, so that the fault hits a commit and not an EVALSHA that the server answers with NOSCRIPT.
  await world.command('SCRIPT', 'LOAD', commitScript.lua)
  return {
    ...world,
    proxy,
    async [Symbol.asyncDispose]() {
      await proxy.idle()
      // Bypasses the proxy, whose fault may still be active.
      const plain = new Ioredis(redisUrl)
      const keys = await plain.keys(`{${world.tag}}*`)
      if (keys.length > 0) await plain.del(...keys)
      plain.disconnect()
      await Promise.resolve(world[Symbol.asyncDispose]()).catch(() => {})
      await proxy[Symbol.asyncDispose]()
    },
  }
}

/** The value that redis-cli would read, bypassing the proxy. */
async function seen(key: string): Promise<string | null> {
  const plain = new Ioredis(redisUrl)
  try {
    return await plain.get(key)
  } finally {
    plain.disconnect()
  }
}

for (const kind of single) {
  describe(`lost connections on ${kind.name}`, () => {
    for (const withInbox of [true, false]) {
      const name = withInbox ? 'with an inbox' : 'without an inbox'

      it(`a commit whose answer is lost is not carried out twice, and is known to be committed, ${name}`, async () => {
        await using world = await openFaulty(kind, 'cut after')
        const { redis, key } = world
        const order = trackedMessage('m1')
        const transaction = transactionMiddleware(redis, quiet)
        const use = withInbox ? [inboxMiddleware(redis, world.inbox()), transaction] : [transaction]
        await deliver({ use, handle: async (_, context) => await redis.commands(context).incr(key('count')) }, order)
        expect(order.verdicts).toEqual(['ack'])
        expect(await seen(key('count'))).toBe('1')
      })

      it(`a commit that never arrived is sent again, or nacked and then handled, ${name}`, async () => {
        await using world = await openFaulty(kind, 'cut before')
        const { redis, key } = world
        const transaction = transactionMiddleware(redis, quiet)
        const use = withInbox ? [inboxMiddleware(redis, world.inbox()), transaction] : [transaction]
        const handle = async (_: unknown, context: Parameters<typeof redis.transaction>[0]) =>
          await redis.commands(context).incr(key('count'))
        const order = trackedMessage('m1')
        await deliver({ use, handle }, order)
        if (order.verdicts[0] === 'nack') {
          expect(errorOf(order)).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
          expect(await seen(key('count'))).toBeNull()
          await deliver({ use, handle }, trackedMessage('m1'))
        } else expect(order.verdicts).toEqual(['ack'])
        expect(await seen(key('count'))).toBe('1')
      })

      it(`bytes of a commit that arrive after it was given up change nothing, ${name}`, async () => {
        const arrives = deferred()
        await using world = await openFaulty(kind, { late: arrives.promise })
        const { redis, key, proxy } = world
        const transaction = transactionMiddleware(redis, quiet)
        const use = withInbox ? [inboxMiddleware(redis, world.inbox()), transaction] : [transaction]
        const handle = async (_: unknown, context: Parameters<typeof redis.transaction>[0]) =>
          await redis.commands(context).incr(key('count'))
        const order = trackedMessage('m1')
        await deliver({ use, handle }, order)
        // ioredis may have sent the commit again by itself.
        const before = await seen(key('count'))
        expect([order.verdicts, before]).toEqual(order.verdicts[0] === 'ack' ? [['ack'], '1'] : [['nack'], null])
        arrives.resolve()
        await proxy.idle()
        expect(await seen(key('count'))).toBe(before)
      })
    }

    it('B4: a commit whose result cannot be found out is unknown: nacked, nothing deleted, and the marker decides at the next delivery', async () => {
      let state: 'armed' | 'down' | 'up' = 'armed'
      await using proxy = await startFaultProxy(redisUrl, (bytes) => {
        if (state === 'down') return 'cut before'
        if (state === 'up' || !isCommit(bytes)) return 'pass'
        state = 'down'
        return 'cut after'
      })
      await using world = await openHandlingWorld(kind, { url: proxy.url, options: { deadline: 600 } })
      const { redis, key } = world
      const use = [inboxMiddleware(redis, world.inbox()), transactionMiddleware(redis, quiet)]
      const handle = async (_: unknown, context: Parameters<typeof redis.transaction>[0]) =>
        await redis.commands(context).incr(key('count'))
      const order = trackedMessage('m1')
      await deliver({ use, handle }, order)
      expect(order.verdicts).toEqual(['nack'])
      expect(errorOf(order)).toMatchObject({ code: 'ACKORD_COMMIT_UNKNOWN' })
      state = 'up'
      // The client is reconnecting.
      const verdicts = async () => {
        const again = trackedMessage('m1')
        await deliver({ use, handle }, again)
        return again.verdicts
      }
      await expect.poll(verdicts, { timeout: 10_000 }).toEqual(['ack'])
      expect(await seen(key('count'))).toBe('1')
    })
  })
}

describe('a server that refuses', () => {
  it('out of memory: nothing is written, the message waits, and is handled when memory is free', async () => {
    await using server = await startRedis()
    await using world = await openHandlingWorld(ioredis6, { url: server.url })
    const { redis, key, command } = world
    const use = [inboxMiddleware(redis, world.inbox()), transactionMiddleware(redis, quiet)]
    const limit = async (bytes: string) => await command('CONFIG', 'SET', 'maxmemory', bytes)
    for (const when of ['begin', 'commit'] as const) {
      const order = trackedMessage(`m ${when}`)
      const logger = recordingLogger()
      const fills = { once: when === 'commit' }
      if (when === 'begin') await limit('1')
      const delivery = deliver(
        {
          use,
          router: { logger },
          async handle(_, context) {
            await redis.commands(context).incr(key('count', when))
            if (!fills.once) return
            fills.once = false
            await limit('1')
          },
        },
        order,
      )
      await until('a log line', () => logger.lines.length > 0)
      expect(order.verdicts).toEqual([])
      expect(logger.lines.map(({ fields }) => fields)).toMatchObject([{ err: { code: 'ACKORD_STORE_REFUSES_WRITES' } }])
      expect(await world.keys(when)).toEqual([])
      await limit('0')
      await delivery
      expect([order.verdicts, await command('GET', key('count', when))]).toEqual([['ack'], '1'])
      expect(logger.lines.map(({ level }) => level)).toEqual(['warn', 'info'])
    }
  })

  it('a replica and a master without replicas refuse writes, and messages wait', async () => {
    await using server = await startRedis()
    await using world = await openHandlingWorld(ioredis6, { url: server.url })
    const { redis, key, command } = world
    const use = [inboxMiddleware(redis, world.inbox()), transactionMiddleware(redis, quiet)]
    const troubles: [from: string[], to: string[]][] = [
      [
        ['CONFIG', 'SET', 'min-replicas-to-write', '1'],
        ['CONFIG', 'SET', 'min-replicas-to-write', '0'],
      ],
      [
        ['REPLICAOF', '127.0.0.1', '1'],
        ['REPLICAOF', 'NO', 'ONE'],
      ],
    ]
    for (const [index, [from, to]] of troubles.entries()) {
      const order = trackedMessage(`m${index}`)
      const logger = recordingLogger()
      await command(...from)
      const handle = async () => await redis.commands().incr(key('count'))
      const delivery = deliver({ use, router: { logger }, handle }, order)
      await until('a log line', () => logger.lines.length > 0)
      expect(logger.lines.map(({ fields }) => fields)).toMatchObject([{ err: { code: 'ACKORD_STORE_REFUSES_WRITES' } }])
      await command(...to)
      await delivery
      expect(order.verdicts).toEqual(['ack'])
    }
    expect(await command('GET', key('count'))).toBe('2')
  })

  it('FLUSHALL in the middle: a worker that lost its lease writes nothing, and the message is handled again', async () => {
    await using server = await startRedis()
    await using world = await openHandlingWorld(ioredis6, { url: server.url })
    const { redis, key, command } = world
    const use = [inboxMiddleware(redis, world.inbox()), transactionMiddleware(redis, quiet)]
    for (const flush of [true, false]) {
      const order = trackedMessage('m1')
      await deliver(
        {
          use,
          async handle(_, context) {
            await redis.commands(context).incr(key('count'))
            if (flush) await command('FLUSHALL')
            if (flush) await command('SCRIPT', 'FLUSH')
          },
        },
        order,
      )
      expect(order.verdicts).toEqual([flush ? 'nack' : 'ack'])
    }
    expect(await command('GET', key('count'))).toBe('1')
  })

  it('a user without the permission for a key or a command is refused before anything is written, or gets a partial commit', async () => {
    await using server = await startRedis()
    await using world = await openHandlingWorld(ioredis6, { url: server.url })
    const { tag, command } = world
    const words = ['SETUSER', 'limited', 'on', '>secret', `~{${tag}}:inbox:*`, `~{${tag}}:own*`, '+@all', '-incrby']
    await command('ACL', ...words)
    const client = new Ioredis(server.url, { username: 'limited', password: 'secret' })
    const redis = fromIoredis(client, quiet)
    const use = [inboxMiddleware(redis, world.inbox()), transactionMiddleware(redis, quiet)]
    const forbiddenKey = trackedMessage('m1')
    await deliver(
      {
        use,
        async handle(_, context) {
          await redis.commands(context).set(world.key('own'), 'x')
          await redis.commands(context).set(world.key('foreign'), 'x')
        },
      },
      forbiddenKey,
    )
    expect(forbiddenKey.verdicts).toEqual(['nack'])
    expect(await world.keys()).toEqual([])
    const forbiddenCommand = trackedMessage('m2')
    await deliver(
      {
        use,
        async handle(_, context) {
          await redis.commands(context).set(world.key('own'), '1')
          await redis.commands(context).incrby(world.key('own'), 1)
        },
      },
      forbiddenCommand,
    )
    expect(forbiddenCommand.verdicts).toEqual(['reject'])
    expect(errorOf(forbiddenCommand)).toMatchObject({ code: 'ACKORD_PARTIAL_COMMIT' })
    client.disconnect()
  })
})
