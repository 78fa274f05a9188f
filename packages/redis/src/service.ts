import { InvalidOptionError } from '@ackord/core'
import type { OutboxAdmin, OutboxStore, OutboxWriter } from '@ackord/outbox'
import { Service, type ServiceOptions } from '@ackord/outbox/service'
import type { InboxOptions } from './inbox/inbox-middleware.ts'
import { isWithoutCodecs } from './outbox/outboxes-without-codecs.ts'
import { type StreamOutbox, type StreamOutboxOptions, streamOutbox } from './outbox/stream/stream-outbox.ts'
import type { Redis } from './transaction/redis.ts'
import type { TransactionOptions } from './transaction/run-transaction.ts'
import type { RedisTransaction } from './transaction/transaction.ts'
import { transactional } from './transactional.ts'

export type { RunUntilSignalOptions, ServiceHealth, ServicePorts } from '@ackord/outbox/service'
export { Service } from '@ackord/outbox/service'

type Ports = 'logger' | 'metrics' | 'runtime'
type AnyOutbox = OutboxStore & OutboxAdmin & OutboxWriter<RedisTransaction>

export interface RedisServiceOptions<Outbox extends AnyOutbox = StreamOutbox> extends ServiceOptions {
  /** Holds the business data, the inbox and the outbox: `fromIoredis(client)` or `fromNodeRedis(client)`. */
  readonly redis: Redis
  /** An outbox, such as `luaOutbox(redis)`, or options of a stream outbox. With `codecs` the outbox needs them, too. Default: a stream outbox. */
  readonly outbox?:
    | Outbox
    | Omit<StreamOutboxOptions, Ports | 'source' | 'destination' | 'marshaler' | 'codecs' | 'codecTimeout'>
    | undefined
  /** Further options of the inbox. */
  readonly inbox?: Omit<InboxOptions, Ports | 'consumer'> | undefined
  /** Further options of the transaction of a message. */
  readonly transaction?: Omit<TransactionOptions, Ports> | undefined
}

/**
 * A service on Redis: handles the messages of a source once each, stores their events with the business writes, and publishes them.
 *
 *     const service = createService({ redis, consumer: 'orders', source, handlers: [placeOrderHandler], publisher, destination: 'order-events' })
 *     await service.runUntilSignal()
 */
export function createService<Outbox extends AnyOutbox = StreamOutbox>(options: RedisServiceOptions<Outbox>): Service<Outbox> {
  const { redis, outbox: given, inbox, transaction, ...common } = options
  const { destination, eventSource, marshaler, codecs, codecTimeout } = common
  if (codecs !== undefined && codecs.length > 0 && isOutbox(given) && isWithoutCodecs(given)) {
    throw new InvalidOptionError(
      'outbox',
      'has no codecs: its append() would store plain data. Pass the codecs of the service to it as well.',
    )
  }
  return new Service(({ logger, metrics, runtime }) => {
    const outbox = isOutbox(given)
      ? given
      : // Without an outbox among the options, `Outbox` is that of the default.
        (streamOutbox(redis, {
          ...given,
          source: eventSource,
          destination,
          marshaler,
          codecs,
          codecTimeout,
          logger,
          metrics,
        }) as AnyOutbox as Outbox)
    return {
      outbox,
      transactional: (name, outputs) =>
        transactional(redis, {
          transaction: { ...transaction, logger, metrics },
          inbox: { ...inbox, consumer: name, logger, metrics },
          outbox: { outbox, ...outputs, source: eventSource, runtime },
        }),
    }
  }, common)
}

function isOutbox<Outbox extends AnyOutbox>(given: RedisServiceOptions<Outbox>['outbox']): given is Outbox {
  return given !== undefined && 'claim' in given
}
