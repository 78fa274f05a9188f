import type { Middleware, Runtime } from '@ackord/core'
import { checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import { type OutboxOptions as CommonOutboxOptions, createOutboxMiddleware, type OutboxWriter } from '@ackord/outbox'
import type { CommandQueue } from '../transaction/command-queue.ts'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import type { RedisTransaction } from '../transaction/transaction.ts'

export interface OutboxOptions extends CommonOutboxOptions {
  /** Where the outputs are stored. */
  readonly outbox: OutboxWriter<RedisTransaction>
  /** Default: the runtime of the Redis object. */
  readonly runtime?: Runtime | undefined
}

/** Stores the outputs in the transaction of the business writes and returns none; a relay publishes them after the commit. */
export function outboxMiddleware(redis: Redis, options: OutboxOptions): Middleware {
  const internals = internalsOf(redis)
  const { outbox, destination, marshaler, source, runtime = internals.runtime, codecs, codecTimeout, ...unknown } = options
  rejectUnknownOptions('outboxMiddleware()', unknown)
  checkFunction('outbox.append', outbox?.append)

  return createOutboxMiddleware<CommandQueue>(
    redis,
    {
      find: internals.find,
      append: (transaction, records) => outbox.append(transaction, records),
      scopeOf: ({ scope }) => scope,
    },
    { destination, marshaler, source, runtime, codecs, codecTimeout },
  )
}
