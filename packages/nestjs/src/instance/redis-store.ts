import { redisIdempotency, redisInbox, streamOutbox } from '@ackord/redis'
import { createService } from '@ackord/redis/service'
import type { ConsumerParts, InstanceStore } from './instance-store.ts'
import type { AckordRedisOptions, AnyRedisOutbox } from './options.ts'

/** All services of an instance share its outbox. */
export function redisStore(options: AckordRedisOptions): InstanceStore {
  const { redis, outbox: given, inbox, transaction, publisher, relay } = options
  const { destination, eventSource, marshaler, codecs, codecTimeout, logger, metrics, telemetry, runtime } = options
  const events = { destination, marshaler, codecs, codecTimeout }
  const outbox: AnyRedisOutbox = isOutbox(given)
    ? given
    : streamOutbox(redis, { ...given, source: eventSource, ...events, logger, metrics: metrics ?? telemetry?.metrics })
  const common = { redis, outbox, eventSource, ...events, metrics, telemetry, logger, runtime }
  const publishing = publisher === undefined ? undefined : createService({ ...common, publisher, relay })
  return {
    database: redis,
    outbox: publishing?.outbox ?? telemetry?.outbox(outbox) ?? outbox,
    inbox: redisInbox(redis, { logger }),
    idempotency: redisIdempotency(redis, { logger }),
    publishing,
    createConsumer: ({ name, options: { source, ...consumer }, handlers }: ConsumerParts) =>
      createService({ ...common, ...consumer, consumer: name, source, handlers, inbox, transaction }),
    // Redis has no schema.
    async check() {},
  }
}

function isOutbox(given: AckordRedisOptions['outbox']): given is AnyRedisOutbox {
  return given !== undefined && 'claim' in given
}
