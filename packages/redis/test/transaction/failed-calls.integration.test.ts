import { isAckordError, silentLogger } from '@ackord/core'
import { trackedMessage } from '@ackord/testkit'
import { Redis as Ioredis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { startRedisCluster } from '../../../../scripts/servers/index.mjs'
import { ioredisPort } from '../../src/client/ioredis.ts'
import { inboxMiddleware, Redis, transactionMiddleware } from '../../src/index.ts'
import { deliver, errorOf } from '../support/deliver.ts'
import { openHandlingWorld, quiet } from '../support/handling-world.ts'
import { type RedisKind, redisKinds, redisUrl } from '../support/redis-clients.ts'

const [ioredis6] = redisKinds as readonly [RedisKind]

describe('a commit whose call fails', () => {
  const thrown: [how: string, fail: () => never | Promise<never>][] = [
    [
      'before it is sent, by a throw',
      () => {
        throw new RangeError('Maximum call stack size exceeded')
      },
    ],
    ['before it is sent, by a rejection', () => Promise.reject(new TypeError('Invalid argument type'))],
  ]

  for (const mode of ['exclusive', 'optimistic'] as const) {
    it.each(thrown)(`is the fault of this process %s, and is not retried, ${mode}`, async (_, fail) => {
      await using world = await openHandlingWorld(ioredis6)
      const { key } = world
      const client = new Ioredis(redisUrl)
      try {
        const port = ioredisPort(client)
        const evaluate: typeof port.evaluate = (script, ...rest) =>
          script.lua.includes('local rule, retention') ? fail() : port.evaluate(script, ...rest)
        const redis = new Redis(client, { ...port, evaluate }, { logger: silentLogger })
        const use = [inboxMiddleware(redis, world.inbox({ mode })), transactionMiddleware(redis, quiet)]
        const order = trackedMessage('m1')
        await deliver({ use, handle: async () => await redis.commands().incr(key('count')) }, order)
        expect(order.verdicts).toEqual(['reject'])
        expect(errorOf(order)).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED', retryable: false })
        expect(errorOf(order).message).toContain('this process could not send it')
        expect(await world.keys()).toEqual([])
      } finally {
        client.disconnect()
      }
    })
  }

  it('because its slot is being moved is reported as such, and succeeds when it is delivered again', async () => {
    await using cluster = await startRedisCluster({ nodes: 2 })
    const urls = cluster.nodes.map(({ url }) => url)
    for (const kind of redisKinds.filter(({ cluster: isCluster }) => isCluster)) {
      await using world = await openHandlingWorld(kind, { url: urls.join() })
      const { redis, key, command } = world
      const slot = String(await command('CLUSTER', 'KEYSLOT', key('count')))
      const clients = urls.map((url) => new Ioredis(url))
      const ids = await Promise.all(clients.map(async (client) => String(await client.call('CLUSTER', 'MYID'))))
      const nodes = clients.map((client, index) => ({ client, id: ids[index] as string, half: index }))
      const [source, target] = Number(slot) < 8192 ? nodes : nodes.toReversed()
      if (source === undefined || target === undefined) throw new Error('There are two nodes.')
      const use = [inboxMiddleware(redis, world.inbox()), transactionMiddleware(redis, quiet)]
      const handle = async () => {
        // The marker exists already and this key does not: neither node has both.
        await target.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', source.id)
        await source.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target.id)
        await redis.commands().incr(key('count'))
      }
      const order = trackedMessage('m1')
      await deliver({ use, handle }, order)
      for (const { client } of nodes) await client.call('CLUSTER', 'SETSLOT', slot, 'STABLE')
      expect(order.verdicts, kind.name).toEqual(['nack'])
      expect(isAckordError(errorOf(order), 'ACKORD_TRANSACTION_ABORTED')).toBe(true)
      // The client retries, and which node answers last before it gives up is random.
      expect(errorOf(order).message).toMatch(/is being moved to another node: (?:TRYAGAIN|MOVED|ASK)\b/)
      const again = trackedMessage('m1')
      await deliver({ use, handle: async () => await redis.commands().incr(key('count')) }, again)
      expect(again.verdicts).toEqual(['ack'])
      expect(await command('GET', key('count'))).toBe('1')
      for (const client of clients) client.disconnect()
    }
  }, 60_000)
})
