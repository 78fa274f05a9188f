import { type Attributes, Message } from '@ackord/core'
import type { Claim, NewOutboxRecord } from '@ackord/outbox'
import { type RecordingLogger, recordingLogger } from '@ackord/testkit'
import { ownName } from '../../../../../scripts/test-run.mjs'
import type { RedisPort } from '../../../src/client/port.ts'
import type { KeyName, LuaShard } from '../../../src/outbox/lua/layout.ts'
import { type LuaOutbox, type LuaOutboxOptions, luaOutbox } from '../../../src/outbox/lua/lua-outbox.ts'
import { internalsOf, Redis } from '../../../src/transaction/redis.ts'
import { type ClientSettings, type RedisKind, redisKinds, type TestRedis } from '../../support/redis-clients.ts'
import { removeShards, shardsOf } from './conformance-world.ts'
import { movedServer } from './moved-server.ts'

export const ioredis6: RedisKind = redisKinds[0] as RedisKind
export const lease = 60_000
export const hour = 3_600_000

export interface LuaWorldSettings extends ClientSettings {
  readonly kind?: RedisKind | undefined
  readonly outbox?: LuaOutboxOptions | undefined
}

/** An outbox with its own tag, whose keys are deleted at the end. The server's clock can be moved. */
export class LuaWorld implements AsyncDisposable {
  readonly tag: string = `test-${ownName()}`
  readonly logger: RecordingLogger = recordingLogger()
  readonly counted: string[] = []
  /** How often the server answered NOSCRIPT. */
  reloads = 0
  readonly redis: Redis
  readonly port: RedisPort
  readonly store: LuaOutbox
  readonly shards: readonly LuaShard[]
  readonly advance: (duration: number) => Promise<void>
  readonly stopClockAt: (instant: number) => Promise<void>
  readonly #client: TestRedis
  readonly #settings: LuaWorldSettings

  private constructor(client: TestRedis, settings: LuaWorldSettings) {
    this.#client = client
    this.#settings = settings
    const { shards = 1, name = 'lua-outbox' } = settings.outbox ?? {}
    this.shards = shardsOf(this.tag, { shards, name })
    const moved = movedServer(
      internalsOf(client.redis).port,
      this.shards.map(({ tag }) => tag),
    )
    this.port = moved.port
    this.advance = moved.move
    this.stopClockAt = moved.stopAt
    this.redis = new Redis({}, moved.port, { logger: this.logger, ...settings.options })
    this.store = this.another()
  }

  static async open(settings: LuaWorldSettings = {}): Promise<LuaWorld> {
    return new LuaWorld(await (settings.kind ?? ioredis6).open(settings), settings)
  }

  /** A second store object, as in another process. */
  another(options: LuaOutboxOptions = {}): LuaOutbox {
    return luaOutbox(this.redis, {
      tag: this.tag,
      logger: this.logger,
      metrics: {
        count: (name, amount, labels) => {
          if (name === 'ackord.outbox.script_reloads') this.reloads += amount
          else this.counted.push([name, ...Object.values(labels), amount].join(' '))
        },
        observe() {},
        gauge() {},
      },
      ...this.#settings.outbox,
      ...options,
    })
  }

  get shard(): LuaShard {
    return this.shards[0] as LuaShard
  }

  /** A key of the outbox including the client's prefix, as the server sees it. */
  key(name: KeyName, shard: LuaShard = this.shard): string {
    return this.port.keyPrefix + shard.key(name)
  }

  get keys(): readonly string[] {
    return this.shards.flatMap((shard) => shard.keys.map((key) => this.port.keyPrefix + key))
  }

  async command(...words: (string | Buffer)[]): Promise<unknown> {
    return await this.#client.command(...words)
  }

  /** Digests of the values of all keys, to verify that nothing has changed. */
  async dump(keys: readonly string[] = this.keys): Promise<Record<string, string>> {
    const found: Record<string, string> = {}
    // Hashed in the script: a dump is binary, and the plain client would decode it as text.
    const script = "local dump = redis.call('DUMP', KEYS[1]) return dump and redis.sha1hex(dump) or ''"
    for (const key of keys) found[key] = String(await this.command('EVAL', script, '1', key))
    return found
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await removeShards((...words) => this.command(...words), this.shards, this.port.keyPrefix)
    } catch {
      // The server of this world is already stopped.
    }
    await this.#client[Symbol.asyncDispose]()
  }
}

export interface RecordSettings {
  readonly destination?: string
  readonly data?: Uint8Array
  readonly attributes?: Attributes
  readonly delay?: number
}

export function record(
  id: string,
  { destination = 'orders', data = Buffer.from(id), attributes, delay }: RecordSettings = {},
): NewOutboxRecord {
  const message = new Message(new Uint8Array(data), { id, type: 'order.placed', source: '/shop', specversion: '1.0', ...attributes })
  return { destination, message, delay }
}

export function records(count: number, prefix = 'e', settings?: RecordSettings): NewOutboxRecord[] {
  return Array.from({ length: count }, (_, index) => record(`${prefix}${index + 1}`, settings))
}

export function idsOf(claimed: readonly { readonly message: Message }[]): (string | undefined)[] {
  return claimed.map(({ message }) => message.id)
}

export function published({ id, token }: Claim) {
  return { id, token, result: 'published' } as const
}

export function failed({ id, token }: Claim, retryAfter = 0, error = 'refused') {
  return { id, token, result: 'failed', error, retryAfter } as const
}

/** A failure without a delay: the store's own back-off decides when the record is retried. */
export function failedByStore({ id, token }: Claim, error = 'refused') {
  return { id, token, result: 'failed', error } as const
}

export function parked({ id, token }: Claim, error = 'too large') {
  return { id, token, result: 'parked', error } as const
}
