import { type Attributes, Message } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import { type RecordingLogger, recordingLogger } from '@ackord/testkit'
import { ownName } from '../../../../../scripts/test-run.mjs'
import { redisKey } from '../../../src/client/keys.ts'
import type { RedisPort } from '../../../src/client/port.ts'
import { type StreamOutbox, type StreamOutboxOptions, streamOutbox } from '../../../src/outbox/stream/stream-outbox.ts'
import { internalsOf, type Redis } from '../../../src/transaction/redis.ts'
import { noteKeys } from '../../support/note-keys.ts'
import { type ClientSettings, type RedisKind, redisKinds, type TestRedis } from '../../support/redis-clients.ts'
import { TestTransaction } from './test-transaction.ts'

const ioredis6 = redisKinds[0] as RedisKind

export interface StreamWorldSettings extends ClientSettings {
  readonly kind?: RedisKind | undefined
  readonly outbox?: StreamOutboxOptions | undefined
}

/** An outbox with its own tag, whose keys are deleted at the end. */
export class StreamWorld implements AsyncDisposable {
  readonly tag: string = `test-${ownName()}`
  readonly logger: RecordingLogger = recordingLogger()
  readonly counted: string[] = []
  readonly redis: Redis
  readonly port: RedisPort
  readonly store: StreamOutbox
  readonly #client: TestRedis
  readonly #settings: StreamWorldSettings

  private constructor(client: TestRedis, settings: StreamWorldSettings) {
    this.#client = client
    this.#settings = settings
    this.redis = client.redis
    this.port = internalsOf(client.redis).port
    this.store = this.another()
  }

  static async open(settings: StreamWorldSettings = {}): Promise<StreamWorld> {
    return new StreamWorld(await (settings.kind ?? ioredis6).open(settings), settings)
  }

  /** A second store object, as in another process. */
  another(options: StreamOutboxOptions = {}): StreamOutbox {
    return streamOutbox(this.redis, {
      tags: [this.tag],
      claimInterval: 0,
      logger: this.logger,
      metrics: { count: (name, amount) => this.counted.push(`${name} ${amount}`), observe() {}, gauge() {} },
      ...this.#settings.outbox,
      ...options,
    })
  }

  async append(...records: readonly NewOutboxRecord[]): Promise<void> {
    const transaction = new TestTransaction()
    await this.store.append(transaction, records)
    await transaction.commit(this.port)
  }

  /** A key of the outbox, without the client's prefix. */
  key(kind: 'to' | 'ready' | 'retry' | 'parked' | 'errors' | 'uncounted' | 'gate', destination = 'orders'): string {
    return redisKey(this.tag, 'outbox', kind, destination)
  }

  get destinationsKey(): string {
    return redisKey(this.tag, 'outbox', 'destinations')
  }

  /** The key of the empty destinations, whose keys are deleted later. */
  get emptyKey(): string {
    return redisKey(this.tag, 'outbox', 'empty')
  }

  /** The set of destinations, and the keys of one destination with its records. */
  allKeys(destination = 'orders'): string[] {
    const kinds = ['to', 'ready', 'retry', 'parked', 'errors', 'uncounted'] as const
    return [this.destinationsKey, ...kinds.map((kind) => this.key(kind, destination))]
  }

  /** What records have left in the keys of their destination, apart from the stream itself and, with the index, the number of entries in it. */
  async leftovers(destination = 'orders'): Promise<readonly string[]> {
    const fields = (await this.command('HKEYS', this.key('errors', destination))) as string[]
    const others = (['ready', 'retry', 'parked', 'uncounted'] as const).map((kind) => this.key(kind, destination))
    const found = await Promise.all(others.map(async (key) => ((await this.command('EXISTS', key)) === 1 ? [key] : [])))
    const isIndexed = this.#settings.outbox?.messageIndex === true
    return [...fields.filter((field) => field !== '' || !isIndexed), ...found.flat()]
  }

  async command(...words: (string | Buffer)[]): Promise<unknown> {
    return await this.#client.command(...words)
  }

  /** The pending entries: id, consumer, idle milliseconds, deliveries. */
  async pending(destination = 'orders'): Promise<[string, string, number, number][]> {
    return (await this.command('XPENDING', this.key('to', destination), 'relay', '-', '+', '100000')) as [string, string, number, number][]
  }

  async consumers(destination = 'orders'): Promise<{ name: string; pending: number; idle: number }[]> {
    const listed = (await this.command('XINFO', 'CONSUMERS', this.key('to', destination), 'relay')) as readonly unknown[]
    return listed.map((one) => {
      // RESP3 replies with a map, which clients return in different forms.
      const pairs =
        one instanceof Map
          ? [...one]
          : Array.isArray(one)
            ? one.flatMap((name, index) => (index % 2 === 0 ? [[name, one[index + 1]]] : []))
            : Object.entries(one as object)
      return Object.fromEntries(pairs) as { name: string; pending: number; idle: number }
    })
  }

  /** Makes these records look as if they had been pending for `duration`. */
  async age(held: readonly { readonly id: string }[], destination = 'orders', duration = 3_600_000): Promise<void> {
    const entries = new Set(held.map(({ id }) => id.split('/')[0]))
    for (const [entry, consumer, , deliveries] of await this.pending(destination)) {
      if (!entries.has(entry)) continue
      const words = [
        'XCLAIM',
        this.key('to', destination),
        'relay',
        consumer,
        '0',
        entry,
        'IDLE',
        String(duration),
        'RETRYCOUNT',
        String(deliveries),
        'JUSTID',
      ]
      await this.command(...words)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      const prefix = this.port.keyPrefix
      const destinations = [
        ...((await this.command('SMEMBERS', prefix + this.destinationsKey)) as string[]),
        ...((await this.command('ZRANGE', prefix + this.emptyKey, '0', '-1')) as string[]),
      ]
      const keysOf = (destination: string) => [...this.allKeys(destination), this.key('gate', destination)].map((key) => prefix + key)
      await Promise.all(destinations.map((destination) => this.command('DEL', ...keysOf(destination))))
      await this.command('DEL', prefix + this.emptyKey)
      const others = [redisKey(this.tag, 'outbox', 'wake'), ...noteKeys((...parts) => redisKey(this.tag, 'outbox', ...parts))]
      await this.command('DEL', ...others.map((key) => prefix + key))
    } catch {
      // The server is already stopped, or a test has stored something else under a key.
    }
    await this.#client[Symbol.asyncDispose]()
  }
}

export function record(
  id: string,
  options: { destination?: string; data?: Uint8Array; attributes?: Attributes; delay?: number } = {},
): NewOutboxRecord {
  const { destination = 'orders', data = Buffer.from(id), attributes, delay } = options
  const message = new Message(new Uint8Array(data), { id, type: 'order.placed', source: '/shop', specversion: '1.0', ...attributes })
  return { destination, message, delay }
}

export function records(count: number, options?: Parameters<typeof record>[1]): NewOutboxRecord[] {
  return Array.from({ length: count }, (_, index) => record(`e${index + 1}`, options))
}

export function idsOf(claimed: readonly { readonly message: Message }[]): (string | undefined)[] {
  return claimed.map(({ message }) => message.id)
}

export const lease = 60_000
