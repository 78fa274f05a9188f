import {
  type Attributes,
  type Backoff,
  type Closable,
  exponentialBackoff,
  InvalidOptionError,
  type Source,
  systemRuntime,
} from '@ackord/core'
import { createReceiver, createSource, type ReceiverOptions } from '@ackord/core/broker'
import { checkChoice, checkCount, checkDuration, checkFunction, checkName, rejectUnknownOptions } from '@ackord/core/internal'
import type { AmqpConnection, AmqpMessage } from '../client.ts'
import { watchConnection } from '../connection-watch.ts'
import type { Verdict } from './dispositions.ts'
import { readMessage } from './read-message.ts'
import { Subscription } from './subscription.ts'

/**
 * The outcome of AMQP with which the broker ends a rejected message. `rejected`: Service Bus and Artemis move it to their dead-letter queue, RabbitMQ to the dead-letter exchange of the
 * queue. `undeliverable`: `modified` with `undeliverable-here`, which Artemis delivers to another consumer, Service Bus defers, and RabbitMQ dead-letters. Without a dead-letter
 * exchange RabbitMQ drops the message in both cases.
 */
export type AmqpDeadLetter = 'rejected' | 'undeliverable'

export interface AmqpSourceOptions extends Omit<ReceiverOptions, 'deadLetter'> {
  /** The queue, or its address. On RabbitMQ a name that does not begin with `/` is a queue: `orders` is `/queues/orders`. */
  readonly address: string
  /**
   * Where rejected messages are published, confirmed, before they are accepted; `'discard'`: they are accepted and dropped; or the verdict with which the broker dead-letters them by its own rules.
   * Default: neither; a rejected message is nacked with a growing delay, and a warning is logged once.
   */
  readonly deadLetter?: ReceiverOptions['deadLetter'] | AmqpDeadLetter
  /**
   * The most unsettled messages that an iteration holds: those that wait to be pulled, those being handled, and those that were nacked
   * with a delay. It is the credit of the link. A larger number keeps a fast handler busy, a smaller one spreads slow work more evenly over consumers; a router needs at least its `concurrency`.
   * Up to 10,000. Default: 100.
   */
  readonly prefetch?: number | undefined
  /**
   * `perKey`: one message per `partitionkey` is handled at a time, in the order of the queue, also after nacks. Only one consumer at a time may receive from the queue: a queue of RabbitMQ with
   * `x-single-active-consumer`, or a `session` of Service Bus. Default: messages of a key may be handled at the same time, and a nacked one comes back after later ones.
   */
  readonly order?: 'perKey' | undefined
  /**
   * Where a message waits that was nacked with a delay. `local`: in this process, as an unsettled message. `broker`: in the queue, for quorum queues of RabbitMQ 4.3 and later: a classic
   * queue would deliver it again without a pause. With `order` it waits in this process in any case. Default: 'local'.
   */
  readonly delay?: 'local' | 'broker' | undefined
  /** The longest delay of a nack in milliseconds; longer delays are shortened to it. Set it below the time for which the broker locks a message. Default: 600,000. */
  readonly maxDelay?: number | undefined
  /** Milliseconds within which the broker must confirm an ack or nack. Then the link is given up and attached again, and the message may come again. Default: 30,000. */
  readonly settleTimeout?: number | undefined
  /** A session of Azure Service Bus: its id, or `true` for the next one that is free. Its messages come in order, to this consumer alone. Default: none. */
  readonly session?: string | true | undefined
  /**
   * Returns the attributes of a message that the broker has delivered. If it throws, the message is rejected. Default: the attributes of a CloudEvent in binary or structured mode; for other
   * messages the AMQP properties: `message-id` is the id, `subject` the type, the address the source, `creation-time` the time, `content-type` the content
   * type, `correlation-id` the correlation id and `group-id` the partition key.
   */
  readonly attributes?: ((native: AmqpMessage) => Attributes) | undefined
  /** The pause before a lost link is attached again. Default: 100 ms × 2ⁿ up to 30 s, ± 20 %. */
  readonly backoff?: Backoff | undefined
}

/**
 * The messages of a queue, over AMQP 1.0. `connection` is opened by rhea's `connect()`, which connects again by itself, with `all_errors_non_fatal: true` also after a shutdown of the broker. Each iteration has a link of its own. The source may be iterated several
 * times, also at the same time.
 *
 * A lost connection or link does not end an iteration: the loss is logged once, and the link is attached again as soon as possible. Unsettled messages are delivered
 * again, and settling the lost delivery rejects with `ACKORD_LEASE_LOST`. An ack resolves when the broker has confirmed it.
 */
export function amqpSource(connection: AmqpConnection, options: AmqpSourceOptions): Source & Closable {
  const {
    address,
    prefetch = 100,
    order,
    delay = 'local',
    maxDelay = 600_000,
    settleTimeout = 30_000,
    session,
    attributes,
    backoff = exponentialBackoff({ initial: 100, max: 30_000 }),
    deadLetter,
    deadLetterTimeout,
    onUndeliverable,
    runtime = systemRuntime,
    logger: given,
    ...unknown
  } = options
  rejectUnknownOptions('An AMQP source', unknown)
  checkName('address', address)
  checkCount('prefetch', prefetch)
  if (prefetch > maxPrefetch) throw new InvalidOptionError('prefetch', `must be 10,000 or less; it is ${prefetch}.`)
  if (order !== undefined) checkChoice('order', order, ['perKey'])
  checkChoice('delay', delay, ['local', 'broker'])
  checkDuration('maxDelay', maxDelay)
  checkDuration('settleTimeout', settleTimeout, { min: 1 })
  if (session !== undefined && session !== true) checkName('session', session)
  if (attributes !== undefined) checkFunction('attributes', attributes)
  checkFunction('backoff', backoff)
  const shared = watchConnection(connection, given)
  const brokerOutcome = brokerOutcomeOf(deadLetter)
  const ownDeadLetter = brokerOutcome === undefined ? (deadLetter as ReceiverOptions['deadLetter']) : 'discard'
  const receive = createReceiver({ deadLetter: ownDeadLetter, deadLetterTimeout, onUndeliverable, runtime, logger: shared })
  const settings = {
    connection,
    address,
    prefetch,
    delay,
    maxDelay,
    settleTimeout,
    // Azure names the filter; null asks for the next session that is free.
    filter: session === undefined ? undefined : { 'com.microsoft:session-filter': session === true ? null : session },
    keyOf: order === undefined ? undefined : keyReader(address, attributes),
    attributes,
    ending: { outcome: brokerOutcome ?? 'accepted' } as Verdict,
    backoff,
    runtime,
    logger: receive.logger,
    receive,
  }
  return createSource(() => new Subscription(settings), receive)
}

// rhea's session has room for six times as many.
const maxPrefetch = 10_000

function brokerOutcomeOf(deadLetter: AmqpSourceOptions['deadLetter']): AmqpDeadLetter | undefined {
  return deadLetter === 'rejected' || deadLetter === 'undeliverable' ? deadLetter : undefined
}

/** Messages without a key, and those that cannot be read, keep no order. */
function keyReader(address: string, attributes: AmqpSourceOptions['attributes']): (native: AmqpMessage) => string | undefined {
  return (native) => {
    try {
      const { partitionkey } = attributes?.(native) ?? readMessage(native, address).attributes
      return typeof partitionkey === 'string' && partitionkey !== '' ? partitionkey : undefined
    } catch {
      return undefined
    }
  }
}
