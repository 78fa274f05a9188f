import {
  AckordError,
  type Context,
  type ContextKey,
  contextKey,
  currentContext,
  type Logger,
  type Runtime,
  rootContext,
  systemRuntime,
  TransactionRequiredError,
} from '@ackord/core'
import { checkChoice, checkCount, checkDuration, PartPorts, rejectUnknownOptions } from '@ackord/core/internal'
import { withDeadline } from '../client/evaluate.ts'
import { KeySpace, redisKey } from '../client/keys.ts'
import { KnownCommands } from '../client/known-commands.ts'
import type { RedisPort } from '../client/port.ts'
import { CommandQueue } from './command-queue.ts'
import { Committer } from './committer.ts'
import type { RedisInternals } from './redis-internals.ts'
import { createWriter } from './redis-writer.ts'
import type { RedisWrites } from './redis-writes.ts'
import { type RunTransaction, type TransactionOptions, transactionRunner } from './run-transaction.ts'
import type { RedisTransaction } from './transaction.ts'
import type { UnitOfWork } from './unit-of-work.ts'

export interface RedisOptions {
  /** Milliseconds after which a command counts as unanswered: the promises of a client may never settle. Default: 5 seconds. */
  readonly deadline?: number | undefined
  /**
   * Whether keys of a transaction must be in one slot: `always`, so that a service still works after a move to a cluster, or only on
   * a `cluster`. Default: `always`.
   */
  readonly slotCheck?: 'always' | 'cluster' | undefined
  /**
   * How many messages of one tick share a call to begin or to commit; on a cluster those of one slot. Each is still committed or not on its
   * own. Default: 50. 1: every message has its own call.
   */
  readonly coalesce?: number | undefined
  /** For all parts on this object that have none. Default: that of the first router, relay or service that uses it; until then the console, from `info` up. */
  readonly logger?: Logger | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

export interface CommandsOptions {
  /** Whether a missing transaction is an error. Default: false, commands are sent at once. */
  readonly required?: boolean | undefined
}

interface ClientKeys {
  readonly transaction: ContextKey<CommandQueue>
  readonly unit: ContextKey<UnitOfWork>
}

/** @internal */
export let internalsOf: (redis: Redis) => RedisInternals

// By the client, however often it is wrapped: with two keys, a repository would miss the transaction of its own client.
const keys = new WeakMap<object, ClientKeys>()

/** A client of Redis and the transactions on it. Made by `fromIoredis()` and `fromNodeRedis()`. */
export class Redis {
  readonly #internals: RedisInternals
  readonly #direct: RedisWrites
  #byDefault: RunTransaction | undefined

  static {
    internalsOf = (redis) => redis.#internals
  }

  constructor(client: object, port: RedisPort, options: RedisOptions = {}) {
    const { deadline = 5_000, slotCheck = 'always', coalesce = 50, logger, runtime = systemRuntime, ...unknown } = options
    rejectUnknownOptions('Redis', unknown)
    checkDuration('deadline', deadline, { min: 1 })
    checkChoice('slotCheck', slotCheck, ['always', 'cluster'])
    checkCount('coalesce', coalesce)
    const ports = new PartPorts({ logger })
    const key = keysOf(client)
    const limited = withDeadline(port, deadline, runtime)
    const space = new KeySpace(port.keyPrefix, { checked: port.cluster || slotCheck === 'always' })
    const known = new KnownCommands(limited)
    this.#internals = {
      port: limited,
      deadline,
      logger: ports.logger,
      ports,
      runtime,
      coalesce,
      queueContext: { space, known },
      committer: new Committer(limited, space, coalesce),
      tokens: tokenMaker(runtime),
      find: (context) => context.get(key.transaction),
      enter: (context, transaction) => context.with(key.transaction, transaction),
      findUnit: (context) => context.get(key.unit),
      enterUnit: (context, unit) => context.with(key.unit, unit),
    }
    this.#direct = directWriter(limited, known)
  }

  /** `{tag}:part:part`, a key that commits together with others of its tag. Characters that would end the tag or separate two parts are encoded. */
  key(tag: string | number | bigint, ...parts: readonly (string | number | bigint)[]): string {
    return redisKey(tag, ...parts)
  }

  /** The writes: queued inside of a transaction, sent at once elsewhere. `context` defaults to the ambient one. */
  commands(context: Context | undefined = currentContext(), options: CommandsOptions = {}): RedisWrites {
    const queue = context === undefined ? undefined : this.#internals.find(context)
    if (queue !== undefined) return queue.writer
    if (options.required === true) throw new TransactionRequiredError('commands({ required: true })')
    return this.#direct
  }

  /** The transaction of this context; `undefined` outside of one. `context` defaults to the ambient one. */
  transaction(context: Context | undefined = currentContext()): RedisTransaction | undefined {
    return context === undefined ? undefined : this.#internals.find(context)
  }

  /**
   * Runs the work in a transaction, outside of a router: a request, a job. Its writes commit together when it resolves, and are dropped when it
   * rejects or the context's signal is aborted. Inside of another transaction it becomes a part of that one. `context` defaults to the ambient one.
   *
   *     await redis.write(async (transaction) => {
   *       await redis.commands().hset(redis.key('orders', id), { total: 5 })
   *       await outbox.append(transaction, orderPlaced({ orderId }))
   *     })
   */
  async write<R>(
    work: (transaction: RedisTransaction, context: Context) => Promise<R>,
    options: TransactionOptions & { readonly context?: Context | undefined } = {},
  ): Promise<R> {
    const { context = currentContext() ?? rootContext(), ...settings } = options
    const runTransaction =
      Object.keys(settings).length === 0 ? this.#runByDefault() : transactionRunner(this.#internals, 'write()', settings)
    return await runTransaction(
      {
        message: undefined,
        // The runner has put it there.
        run: (inside) => work(this.#internals.find(inside) as CommandQueue, inside),
      },
      context,
    )
  }

  /** A context inside of this transaction, for work that was begun elsewhere. */
  withTransaction(context: Context, transaction: RedisTransaction): Context {
    if (transaction instanceof CommandQueue) return this.#internals.enter(context, transaction)
    throw new AckordError('ACKORD_TRANSACTION_REQUIRED', 'withTransaction() requires a transaction that write() or a middleware began.')
  }

  #runByDefault(): RunTransaction {
    this.#byDefault ??= transactionRunner(this.#internals, 'write()', {})
    return this.#byDefault
  }
}

function directWriter(port: RedisPort, known: KnownCommands): RedisWrites {
  return createWriter({
    run: async (command) => {
      await port.send(command)
    },
    runUnknown: async (command) => {
      await known.complete(command)
      await port.send(command)
    },
  })
}

function keysOf(client: object): ClientKeys {
  let key = keys.get(client)
  if (key === undefined) {
    key = {
      transaction: contextKey('ackord.redis.transaction', { callScoped: true }),
      unit: contextKey('ackord.redis.unitOfWork', { callScoped: true }),
    }
    keys.set(client, key)
  }
  return key
}

/** Returns unique strings: one part for the process, and a number. A random one for each is expensive. */
function tokenMaker(runtime: Runtime): () => string {
  const own = Buffer.from(runtime.uuid().replaceAll('-', ''), 'hex').toString('base64url')
  let made = 0
  return () => {
    made += 1
    return `${own}.${made.toString(36)}`
  }
}
