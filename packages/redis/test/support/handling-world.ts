import { type Context, Message, type RawMessage, silentLogger } from '@ackord/core'
import type { NewOutboxRecord, OutboxWriter } from '@ackord/outbox'
import { ownName } from '../../../../scripts/test-run.mjs'
import type { InboxOptions, Redis, RedisOptions, RedisTransaction, TransactionOptions } from '../../src/index.ts'
import type { ClientSettings, RedisKind, TestRedis } from './redis-clients.ts'

/** Redis for one test, with its own keys under one tag. Disposing it deletes them. */
export interface HandlingWorld extends AsyncDisposable {
  readonly redis: Redis
  readonly tag: string
  readonly command: TestRedis['command']
  /** A key under the tag. */
  key(...parts: string[]): string
  readonly outbox: OutboxWriter<RedisTransaction>
  /** The committed events, oldest first. */
  events(): Promise<RawMessage[]>
  /** Options for `inboxMiddleware()`. */
  inbox(options?: Partial<InboxOptions>): InboxOptions
  /** All keys under the tag whose name contains the text, without the tag. */
  keys(containing?: string): Promise<string[]>
}

export const quiet: RedisOptions & TransactionOptions = { logger: silentLogger }

export async function openHandlingWorld(kind: RedisKind, settings: ClientSettings = {}): Promise<HandlingWorld> {
  const { redis, command, ...opened } = await kind.open({ ...settings, options: { ...quiet, ...settings.options } })
  const tag = `t-${ownName()}`
  const prefix = settings.keyPrefix ?? ''
  const key = (...parts: string[]) => redis.key(tag, ...parts)
  const stream = key('events')
  const keysUnderTag = async () => await keysOf(kind, command, `${prefix}{${tag}}*`)
  return {
    redis,
    tag,
    command,
    key,
    outbox: streamWriter(stream),
    async events() {
      const entries = (await command('XRANGE', prefix + stream, '-', '+')) as [string, string[]][]
      return entries.map(([, [, attributes = '', , data = '']]) => new Message(new TextEncoder().encode(data), JSON.parse(attributes)))
    },
    inbox: (options = {}) => ({ consumer: 'orders', tag, ...options }),
    keys: async (containing = '') =>
      (await keysUnderTag()).map((found) => found.slice(`${prefix}{${tag}}:`.length)).filter((found) => found.includes(containing)),
    async [Symbol.asyncDispose]() {
      for (const found of await keysUnderTag()) await command('DEL', found)
      await opened[Symbol.asyncDispose]()
    },
  }
}

/** On a cluster every node has its own keys: the keys of a tag are on the node of its slot. */
async function keysOf(kind: RedisKind, command: TestRedis['command'], pattern: string): Promise<string[]> {
  if (!kind.cluster) return (await command('KEYS', pattern)) as string[]
  // In a script, so that the anchor key routes the call to the right node.
  const anchor = pattern.slice(0, -1)
  return (await command('EVAL', "return redis.call('KEYS', ARGV[1])", '1', anchor, pattern.replaceAll(/[[\]?]/g, '\\$&'))) as string[]
}

/** A minimal outbox: each entry has attributes and data. */
function streamWriter(stream: string): OutboxWriter<RedisTransaction> {
  return {
    async append(transaction, events) {
      // The outbox middleware appends whole records.
      for (const { message } of events as readonly NewOutboxRecord[]) {
        const args = [stream, '*', 'attributes', JSON.stringify(message.attributes), 'data', Buffer.from(message.data)]
        transaction.queueEvent({ name: 'XADD', args, keys: [0], kind: 'stream' })
      }
    },
  }
}

/** A typical business write. */
export async function write(redis: Redis, context: Context, key: string, value: string): Promise<void> {
  await redis.commands(context).set(key, value)
}
