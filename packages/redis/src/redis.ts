import { type Context, type ContextKey, consoleLogger, contextKey, type Logger, type Runtime, systemRuntime } from '@ackord/core'
import { checkDuration, guardLogger } from '@ackord/core/internal'
import type { RedisPort } from './port.ts'
import type { RedisTransaction } from './transaction.ts'
import { withDeadline } from './with-deadline.ts'

export interface RedisOptions {
  /** Milliseconds after which a command counts as unanswered: the promises of a client may never settle. Default: 5 seconds. */
  readonly deadline?: number | undefined
  /** Default: `consoleLogger`. */
  readonly logger?: Logger | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** What the middleware, the stores and the broker of this package use. */
export interface RedisInternals {
  /** Each of its calls ends within the deadline. */
  readonly port: RedisPort
  readonly deadline: number
  readonly logger: Logger
  readonly runtime: Runtime
  find(context: Context): RedisTransaction | undefined
  enter(context: Context, transaction: RedisTransaction): Context
}

/** For siblings. */
export let internalsOf: (redis: Redis) => RedisInternals

// By the client, however often it is wrapped: with two keys, a repository would miss the transaction of its own client.
const keys = new WeakMap<object, ContextKey<RedisTransaction>>()

/** A client of Redis and the transactions on it. Made by `fromIoredis()` and `fromNodeRedis()`. */
export class Redis {
  readonly #internals: RedisInternals

  static {
    internalsOf = (redis) => redis.#internals
  }

  constructor(client: object, port: RedisPort, options: RedisOptions = {}) {
    const { deadline = 5_000, logger = consoleLogger, runtime = systemRuntime } = options
    checkDuration('deadline', deadline, { min: 1 })
    const key = keyOf(client)
    this.#internals = {
      port: withDeadline(port, deadline, runtime),
      deadline,
      logger: guardLogger(logger),
      runtime,
      find: (context) => context.get(key),
      enter: (context, transaction) => context.with(key, transaction),
    }
  }
}

function keyOf(client: object): ContextKey<RedisTransaction> {
  let key = keys.get(client)
  if (key === undefined) {
    key = contextKey('ackord.redis.transaction', { callScoped: true })
    keys.set(client, key)
  }
  return key
}
