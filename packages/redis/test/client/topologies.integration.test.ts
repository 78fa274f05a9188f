import { randomUUID } from 'node:crypto'
import { Message, silentLogger } from '@ackord/core'
import { type OutboxAdmin, type OutboxStore, type OutboxWriter, Relay } from '@ackord/outbox'
import { recordingLogger } from '@ackord/testkit'
import { Redis as Redis6 } from 'ioredis'
import { Redis as Redis5 } from 'ioredis-5'
import { createClient } from 'redis'
import { describe, expect, it, vi } from 'vitest'
import { startRedis, startRedisSentinel } from '../../../../scripts/servers/index.mjs'
import { checkDurability, fromIoredis, fromNodeRedis, type Redis, type RedisTransaction, streamOutbox } from '../../src/index.ts'
import { luaOutbox } from '../../src/outbox/lua/index.ts'
import { streamPublisher, streamSource } from '../../src/streams/index.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { redisKinds } from '../support/redis-clients.ts'

type Outbox = OutboxStore & OutboxAdmin & OutboxWriter<RedisTransaction>

const outboxes: readonly (readonly [string, (redis: Redis) => Outbox])[] = [
  ['stream', (redis) => streamOutbox(redis, { logger: silentLogger, block: 100 })],
  ['Lua', (redis) => luaOutbox(redis, { logger: silentLogger, block: 100 })],
]

const event = (id: string) => new Message(Buffer.from(id), { id, type: 'order.placed', source: '/shop', specversion: '1.0' })

/** Writes business data and its event in one transaction. */
async function place(redis: Redis, outbox: Outbox, id: string): Promise<void> {
  await redis.write(async (transaction) => {
    await redis.commands().incrby(redis.key('ackord', 'orders'), 1)
    await outbox.append(transaction, [{ destination: 'orders', message: event(id) }])
  })
}

/** Retries until it succeeds, as a caller without an answer does; the order may then be placed twice. */
async function placePersistently(redis: Redis, outbox: Outbox, id: string): Promise<void> {
  await vi.waitFor(() => place(redis, outbox, id), { timeout: 30_000, interval: 50 })
}

function relayTo(outbox: Outbox, arrived: Set<string | undefined>): Relay {
  return new Relay(outbox, {
    pollInterval: 50,
    logger: silentLogger,
    publisher: {
      async publish(_, messages) {
        for (const { id } of messages) arrived.add(id)
        return messages.map(() => ({ ok: true }))
      },
    },
  })
}

const numbered = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => `e${from + index}`)

describe.concurrent('failover by Sentinel', { timeout: 90_000 }, () => {
  const sentinelClients = [
    ['ioredis 6', (port: number) => new Redis6({ sentinels: [{ host: '127.0.0.1', port }], name: 'main' })],
    ['ioredis 5', (port: number) => new Redis5({ sentinels: [{ host: '127.0.0.1', port }], name: 'main' })],
  ] as const

  it.each(sentinelClients)('replicated records are kept, and relay and source continue by themselves: %s', async (_, connect) => {
    await using master = await startRedis()
    await using replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(master.port)] })
    await using sentinel = await startRedisSentinel({ master: master.port })
    const client = connect(sentinel.port)
    client.on('error', () => {})
    const logger = recordingLogger()
    const redis = fromIoredis(client, { deadline: 1000, logger })
    const runs = outboxes.map(([, make]) => {
      const outbox = make(redis)
      const arrived = new Set<string | undefined>()
      const relay = relayTo(outbox, arrived)
      relay.start()
      return { outbox, arrived, relay }
    })
    const publisher = streamPublisher(redis)
    const source = streamSource(redis, {
      stream: 'shop',
      group: 'billing',
      block: 200,
      backoff: () => 50,
      claimIdle: 1000,
      claimInterval: 200,
    })
    const handled = new Set<string | undefined>()
    const handling = (async () => {
      for await (const message of source.messages({ signal: new AbortController().signal })) {
        handled.add(message.id)
        await message.ack().catch(() => {})
      }
    })()
    const publish = (id: string) =>
      vi.waitFor(
        async () => {
          const [result] = await publisher.publish('shop', [event(id)], { signal: new AbortController().signal })
          if (result?.ok !== true) throw new Error('the message was not confirmed')
        },
        { timeout: 30_000, interval: 50 },
      )

    for (const id of numbered(0, 20)) {
      for (const { outbox } of runs) await place(redis, outbox, id)
      await publish(id)
    }
    // A busy machine takes its time to replicate them.
    await expect.poll(async () => Number(await client.call('WAIT', '1', '5000')), { timeout: 30_000 }).toBe(1)
    await master.kill()
    for (const id of numbered(20, 40)) {
      for (const { outbox } of runs) await placePersistently(redis, outbox, id)
      await publish(id)
    }
    const all = new Set(numbered(0, 40))
    await vi.waitFor(() => {
      for (const { arrived } of runs) expect(arrived).toEqual(all)
      expect(handled).toEqual(all)
    }, 30_000)
    const promoted = new Redis6(replica.url)
    expect(String(await promoted.call('INFO', 'replication'))).toContain('role:master')
    promoted.disconnect()
    for (const { relay } of runs) await relay.stop()
    await source[Symbol.asyncDispose]()
    await handling
    client.disconnect()
  })

  it.each(outboxes)('writes that the replica did not receive are lost as a whole, never in part: %s outbox', async (_, make) => {
    await using master = await startRedis()
    await using replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(master.port)] })
    const on = (url: string) => {
      const client = new Redis6(url)
      client.on('error', () => {})
      return { client, redis: fromIoredis(client, { deadline: 1000, logger: silentLogger }) }
    }
    const before = on(master.url)
    const outbox = make(before.redis)
    await place(before.redis, outbox, 'e0')
    await vi.waitFor(async () => expect(Number(await before.client.call('WAIT', '1', '1000'))).toBe(1), 20_000)
    let confirmed = 1
    const writing = Promise.all(
      [1, 2, 3, 4].map(async (worker) => {
        for (let index = 0; ; index += 1) {
          try {
            await place(before.redis, outbox, `w${worker}-${index}`)
            confirmed += 1
          } catch {
            return
          }
        }
      }),
    )
    await vi.waitFor(() => expect(confirmed).toBeGreaterThan(200), 20_000)
    await master.kill()
    const after = on(replica.url)
    await after.client.call('REPLICAOF', 'NO', 'ONE')
    await writing
    before.client.disconnect()
    const written = Number(await after.client.call('GET', after.redis.key('ackord', 'orders')))
    const { destinations } = await make(after.redis).stats()
    expect(destinations).toMatchObject([{ destination: 'orders', ready: written }])
    expect(written).toBeGreaterThan(0)
    after.client.disconnect()
  })
})

describe('a server that is a replica for a while', { timeout: 60_000 }, () => {
  it.each(outboxes)(
    'refuses commits, which are not taken for done, and claims; both go on after the promotion: %s outbox',
    async (_, make) => {
      await using server = await startRedis()
      const client = new Redis6(server.url)
      const redis = fromIoredis(client, { logger: silentLogger })
      const outbox = make(redis)
      await place(redis, outbox, 'before')
      await client.call('REPLICAOF', '127.0.0.1', '1')
      await expect(place(redis, outbox, 'refused')).rejects.toThrow(/READONLY/)
      await expect(outbox.claim({ limit: 10, lease: 1000 })).rejects.toThrow(/READONLY/)
      await client.call('REPLICAOF', 'NO', 'ONE')
      await place(redis, outbox, 'after')
      const claimed = await outbox.claim({ limit: 10, lease: 1000 })
      expect(claimed.map(({ message }) => message.id)).toEqual(['before', 'after'])
      expect(await client.call('GET', redis.key('ackord', 'orders'))).toBe('2')
      client.disconnect()
    },
  )

  it.each(['none', 'perKey'] as const)(
    'is not read by a source with order %s, which says so once and goes on after the promotion',
    async (order) => {
      await using server = await startRedis()
      const client = new Redis6(server.url)
      const logger = recordingLogger()
      const redis = fromIoredis(client, { logger })
      const publisher = streamPublisher(redis)
      const publish = (id: string) => publisher.publish('shop', [event(id)], { signal: new AbortController().signal })
      const source = streamSource(redis, { stream: 'shop', group: 'billing', order, block: 100, backoff: () => 50 })
      const messages = source.messages({ signal: new AbortController().signal })[Symbol.asyncIterator]()
      await publish('before')
      const first = (await messages.next()).value
      await client.call('REPLICAOF', '127.0.0.1', '1')
      const pulled = messages.next()
      await expect(first.ack()).rejects.toThrow()
      expect(await publish('refused')).toMatchObject([{ ok: false }])
      await vi.waitFor(() => expect(logger.at('warn').length).toBeGreaterThan(0), 15_000)
      await client.call('REPLICAOF', 'NO', 'ONE')
      await publish('after')
      const seen = new Set<string | undefined>()
      for (let next = await pulled; ; next = await messages.next()) {
        seen.add(next.value?.id)
        await next.value?.ack()
        if (seen.has('after')) break
      }
      expect(logger.at('warn').length).toBeLessThan(6)
      await source[Symbol.asyncDispose]()
      client.disconnect()
    },
  )
})

describe('TLS', { timeout: 60_000 }, () => {
  async function startTls() {
    const { certificate, key } = selfSignedCertificate()
    const port = 22_000 + Math.floor(Math.random() * 5000)
    const settings = ['--tls-cert-file', 'certificate.pem', '--tls-key-file', 'key.pem', '--tls-ca-cert-file', 'certificate.pem']
    const server = await startRedis({
      files: { 'certificate.pem': certificate, 'key.pem': key },
      args: ['--tls-port', String(port), ...settings, '--tls-auth-clients', 'no'],
    })
    return { port, certificate, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
  }

  const clients = [
    [
      'ioredis 6',
      async (port: number, ca: string) => {
        const client = new Redis6({ host: 'localhost', port, tls: { ca } })
        return [fromIoredis(client, { logger: silentLogger }), () => client.disconnect()] as const
      },
    ],
    [
      'ioredis 5',
      async (port: number, ca: string) => {
        const client = new Redis5({ host: 'localhost', port, tls: { ca } })
        return [fromIoredis(client, { logger: silentLogger }), () => client.disconnect()] as const
      },
    ],
    [
      'node-redis',
      async (port: number, ca: string) => {
        const client = createClient({ socket: { host: 'localhost', port, tls: true, ca } })
        client.on('error', () => {})
        await client.connect()
        return [fromNodeRedis(client, { logger: silentLogger }), () => client.destroy()] as const
      },
    ],
  ] as const

  it.each(clients)('commits, relays and reads streams, also on connections of its own: %s', async (_, connect) => {
    await using server = await startTls()
    const [redis, close] = await connect(server.port, server.certificate)
    for (const [, make] of outboxes) {
      const outbox = make(redis)
      const arrived = new Set<string | undefined>()
      const relay = relayTo(outbox, arrived)
      relay.start()
      for (const id of numbered(0, 10)) await place(redis, outbox, id)
      await vi.waitFor(() => expect(arrived).toEqual(new Set(numbered(0, 10))), 20_000)
      await relay.stop()
    }
    const source = streamSource(redis, { stream: 'shop', group: 'billing', block: 100 })
    await streamPublisher(redis).publish('shop', [event('e1')], { signal: new AbortController().signal })
    for await (const message of source.messages({ signal: new AbortController().signal })) {
      expect(message.id).toBe('e1')
      await message.ack()
      break
    }
    await source[Symbol.asyncDispose]()
    close()
  })
})

describe('eviction', { timeout: 60_000 }, () => {
  const single = redisKinds[0] as (typeof redisKinds)[number]

  it.each(outboxes)('a volatile policy evicts no keys without an expiry: all records of the %s outbox are kept', async (_, make) => {
    await using server = await startRedis()
    await using client = await single.open({ url: server.url })
    const outbox = make(client.redis)
    for (const id of numbered(0, 50)) await place(client.redis, outbox, id)
    await client.command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru')
    await evict(client, ['EX', '3600'])
    const claimed = await outbox.claim({ limit: 100, lease: 1000 })
    expect(claimed.map(({ message }) => message.id)).toEqual(numbered(0, 50))
  })

  it.each(outboxes)(
    'with allkeys-lru checkDurability() reports a violation, and the %s outbox goes on after its keys were evicted',
    async (_, make) => {
      await using server = await startRedis({ args: ['--maxmemory-policy', 'allkeys-lru'] })
      await using client = await single.open({ url: server.url })
      const { checks } = await checkDurability(client.redis)
      expect(checks.find(({ name }) => name === 'maxmemory-policy')).toMatchObject({
        state: 'violated',
        text: expect.stringContaining('streams, inbox markers and all else may be evicted'),
      })
      const outbox = make(client.redis)
      for (const id of numbered(0, 50)) await place(client.redis, outbox, id)
      const keys = ((await client.command('KEYS', '*')) as string[]).filter((key) => key.includes('outbox'))
      const left = async () => Number(await client.command('EXISTS', ...keys))
      // All of these keys are older than the keys that fill the memory.
      for (let round = 0; round < 20 && (await left()) > 0; round += 1) await evict(client, [])
      expect([keys.length > 0, await left()]).toEqual([true, 0])
      // Evicted records are lost without an error: only the durability check warns of it, beforehand.
      expect(await outbox.claim({ limit: 100, lease: 1000 })).toEqual([])
      await client.command('CONFIG', 'SET', 'maxmemory', '0')
      for (const id of numbered(50, 60)) await place(client.redis, outbox, id)
      const claimed = await outbox.claim({ limit: 100, lease: 1000 })
      expect(claimed.map(({ message }) => message.id)).toEqual(numbered(50, 60))
    },
  )

  /** Fills the memory until the server has evicted keys. */
  async function evict(client: { command(...words: string[]): Promise<unknown> }, expiry: readonly string[]): Promise<void> {
    const used = Number(/used_memory:(\d+)/.exec(String(await client.command('INFO', 'memory')))?.[1])
    await client.command('CONFIG', 'SET', 'maxmemory', String(used + 4_000_000))
    const value = 'x'.repeat(10_000)
    for (let index = 0; index < 2000; index += 1) await client.command('SET', `junk-${randomUUID()}`, value, ...expiry)
    expect(String(await client.command('INFO', 'stats'))).not.toContain('evicted_keys:0\r')
  }
})
