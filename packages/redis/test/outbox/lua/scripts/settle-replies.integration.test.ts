import { silentLogger } from '@ackord/core'
import { Redis as Ioredis } from 'ioredis'
import { createClient } from 'redis'
import { expect, it } from 'vitest'
import { fromIoredis, fromNodeRedis, type Redis } from '../../../../src/index.ts'
import { luaOutbox } from '../../../../src/outbox/lua/index.ts'
import { redisUrl } from '../../../support/redis-clients.ts'
import { LuaWorld, lease, published, records } from '../lua-world.ts'

interface Opened extends AsyncDisposable {
  readonly redis: Redis
}

async function byNodeRedis(protocol: 2 | 3): Promise<Opened> {
  const client = createClient({ url: redisUrl, RESP: protocol })
  await client.connect()
  return { redis: fromNodeRedis(client), [Symbol.asyncDispose]: async () => client.destroy() }
}

async function byIoredis(protocol: 2 | 3): Promise<Opened> {
  const client = new Ioredis(redisUrl, { protocol })
  return { redis: fromIoredis(client), [Symbol.asyncDispose]: async () => client.disconnect() }
}

const clients = { 'node-redis': byNodeRedis, ioredis: byIoredis }
const ways = (['node-redis', 'ioredis'] as const).flatMap((client) =>
  ([2, 3] as const).flatMap((protocol) => [true, false].map((observed) => ({ client, protocol, observed }))),
)

it.each(ways)('reports lost claims by $client and RESP$protocol, with metrics: $observed', async (way) => {
  await using world = await LuaWorld.open()
  await using opened = await clients[way.client](way.protocol)
  const durations: number[] = []
  const observe = (name: string, value: number) => {
    if (name === 'ackord.outbox.delivery_duration') durations.push(value)
  }
  const metrics = way.observed ? { count() {}, gauge() {}, observe } : undefined
  const store = luaOutbox(opened.redis, { tag: world.tag, logger: silentLogger, metrics })
  await store.enqueue(records(4))
  const [first, second, third, fourth] = await store.claim({ limit: 4, lease })
  if (first === undefined || second === undefined || third === undefined || fourth === undefined) throw new Error('Expected four records.')

  const stale = { ...published(second), token: 'stale' }
  const failed = { id: third.id, token: third.token, result: 'failed', error: 'down', retryAfter: 0 } as const
  expect(await store.settle([published(first), stale, published(first), failed])).toEqual(['applied', 'lost', 'lost', 'applied'])
  expect(await store.settle([published(fourth)])).toEqual(['applied'])
  expect(durations).toHaveLength(way.observed ? 2 : 0)
})
