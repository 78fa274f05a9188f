import type { PieceContext, Setting, StorePiece } from '../piece.ts'
import { redisServer, redisUrl } from '../redis-server.ts'

export function redis({ choices, prefix }: PieceContext): StorePiece {
  const { client } = choices
  const tag: Setting = {
    constant: 'tag',
    value: prefix,
    meaning: 'The hash tag of all keys of this service. Keys with the same tag can be written together, on a cluster too.',
  }
  return {
    title: 'Redis',
    dependencies: ['@ackord/redis', client === 'ioredis' ? 'ioredis' : 'redis'],
    files: { 'src/adapters/redis.ts': client === 'ioredis' ? ioredis : nodeRedis, 'src/adapters/redis-orders.ts': orders },
    settings: [redisUrl, tag],
    servers: redisServer,
    handle: 'redis',
    imports: {
      '@ackord/redis/service': ['createService'],
      './adapters/redis.ts': ['openRedis', 'warnOfDurability'],
      './adapters/redis-orders.ts': ['RedisOrders'],
      './settings.ts': ['tag'],
    },
    open: 'const { redis, client, close: closeRedis } = await openRedis()\nawait warnOfDurability(redis)',
    orders: 'new RedisOrders(redis, client)',
    close: 'closeRedis()',
    options: ['inbox: { tag },', 'outbox: { tags: [tag] },'],
  }
}

const warning = `
/** The guarantee depends on the durability of the server: this warns of settings that can lose confirmed writes. */
export async function warnOfDurability(redis: Redis): Promise<void> {
  const { checks } = await checkDurability(redis)
  for (const { state, text } of checks) if (state === 'violated') console.warn(text)
}
`

const nodeRedis = `import { checkDurability, fromNodeRedis, type Redis } from '@ackord/redis'
import { createClient } from 'redis'
import { redisUrl } from '../settings.ts'

/** Connects to Redis. */
export async function openRedis() {
  const client = createClient({ url: redisUrl })
  client.on('error', (error: Error) => console.warn('The connection to Redis has a problem:', error.message))
  await client.connect()
  return { redis: fromNodeRedis(client), client, close: () => client.destroy() }
}
${warning}`

const ioredis = `import { checkDurability, fromIoredis, type Redis } from '@ackord/redis'
import { Redis as Client } from 'ioredis'
import { redisUrl } from '../settings.ts'

/** Connects to Redis. */
export async function openRedis() {
  const client = new Client(redisUrl)
  client.on('error', (error) => console.warn('The connection to Redis has a problem:', error.message))
  return { redis: fromIoredis(client), client, close: () => client.disconnect() }
}
${warning}`

const orders = `import type { Redis } from '@ackord/redis'
import type { Order, Orders } from '../domain/order.ts'
import { tag } from '../settings.ts'

/** Reads with the client itself: a transaction on Redis only gathers writes. */
interface Reader {
  exists(key: string): Promise<number>
}

/** Orders in Redis, a hash each. In a message, the writes are sent with its commit, in one script. */
export class RedisOrders implements Orders {
  readonly #redis: Redis
  readonly #reader: Reader

  constructor(redis: Redis, reader: Reader) {
    this.#redis = redis
    this.#reader = reader
  }

  async add({ id, total }: Order): Promise<boolean> {
    const key = this.#key(id)
    if ((await this.#reader.exists(key)) === 1) return false
    // If another transaction adds the order before this one commits, nothing is written and the handler runs again.
    this.#redis.transaction()?.expectField(key, 'total', null)
    await this.#redis.commands().hset(key, { total, paid: 0 })
    return true
  }

  async markPaid(id: string): Promise<boolean> {
    const key = this.#key(id)
    if ((await this.#reader.exists(key)) === 0) return false
    await this.#redis.commands().hset(key, { paid: 1 })
    return true
  }

  #key(id: string): string {
    return this.#redis.key(tag, 'order', id)
  }
}
`
