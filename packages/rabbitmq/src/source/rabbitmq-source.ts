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
import { checkCount, checkDuration, checkFunction, checkName, rejectUnknownOptions } from '@ackord/core/internal'
import type { RabbitmqConnection, RabbitmqMessage } from '../client.ts'
import { watchConnection } from '../connection-watch.ts'
import { queueDeclaration, queueDeclarer } from '../topology/declare-topology.ts'
import type { RabbitmqQueueOptions } from '../topology/topology.ts'
import { DeliveryCounts } from './delivery-counts.ts'
import { Subscription } from './subscription.ts'

export interface RabbitmqSourceOptions extends ReceiverOptions {
  readonly queue: string
  /** Creates the queue if it is missing. Ends the source if it exists with other properties. Default: the queue must exist. */
  readonly declare?: RabbitmqQueueOptions | undefined
  /**
   * The most unsettled messages that an iteration holds: those that wait to be pulled, those being handled, and those that were nacked
   * with a delay. A larger number keeps a fast handler busy, a smaller one spreads slow work more evenly over consumers; a router needs at least its `concurrency`.
   * Up to 65,535. Default: 100.
   */
  readonly prefetch?: number | undefined
  /**
   * Returns the attributes of a message that RabbitMQ has delivered. If it throws, the message is rejected.
   * Default: the attributes of a CloudEvent in binary or structured mode; for other messages the AMQP properties: `messageId` is the id,
   * `type` the type, `appId` or else the queue the source, `timestamp` the time, `contentType` the content type and `correlationId` the correlation id.
   */
  readonly attributes?: ((native: RabbitmqMessage) => Attributes) | undefined
  /**
   * The longest delay of a nack in milliseconds; longer delays are shortened to it. RabbitMQ closes the channel of a message that is unsettled
   * for longer than its `consumer_timeout`, 30 minutes by default. Default: 600,000.
   */
  readonly maxDelay?: number | undefined
  /**
   * Whether nacked messages wait for their delay in retry queues of RabbitMQ, once the messages that wait in the process take half of `prefetch`: otherwise as
   * many failing messages as `prefetch` would stop the source. A message is copied there with the same id, is acked when the copy is confirmed, and returns behind
   * the messages that arrived meanwhile. The queues are created when they are first needed, if the user is allowed to; `declareTopology` creates them with `retry: true`.
   * Default: true, and false where order matters: with `prefetch: 1`, or a queue declared with `x-single-active-consumer`.
   */
  readonly retryQueues?: boolean | undefined
  /**
   * The connection that publishes to the retry queues. During a memory or disk alarm RabbitMQ stops reading from a connection that publishes: on the
   * source's own connection the acks would wait too, and the source would stop until the alarm is over. Default: the source's own.
   */
  readonly retryConnection?: RabbitmqConnection | undefined
  /** The pause before a lost consumer is opened again. Default: 100 ms × 2ⁿ up to 30 s, ± 20 %. */
  readonly backoff?: Backoff | undefined
}

/**
 * The messages of a queue. Open the connection with amqplib's `connect(url, { recovery: true })`: without recovery, the source throws when the connection
 * is lost. Each iteration has a channel of its own. The source may be iterated several times, also at the same time.
 *
 * A lost connection or channel does not end an iteration: the loss is logged once, and the queue is consumed again as soon as possible. Unsettled messages are delivered
 * again, and settling the lost delivery rejects with `ACKORD_LEASE_LOST`. An ack resolves when it is sent: AMQP does not confirm it, so if an ack is
 * lost with its connection, the message comes again.
 */
export function rabbitmqSource(connection: RabbitmqConnection, options: RabbitmqSourceOptions): Source & Closable {
  const {
    queue,
    declare,
    prefetch = 100,
    attributes,
    retryQueues = prefetch > 1 && declare?.arguments?.['x-single-active-consumer'] !== true,
    retryConnection = connection,
    maxDelay = 600_000,
    backoff = exponentialBackoff({ initial: 100, max: 30_000 }),
    deadLetter,
    deadLetterTimeout,
    onUndeliverable,
    runtime = systemRuntime,
    logger: given,
    ...unknown
  } = options
  rejectUnknownOptions('A RabbitMQ source', unknown)
  checkName('queue', queue)
  checkCount('prefetch', prefetch)
  if (prefetch > 65_535) throw new InvalidOptionError('prefetch', `must be 65,535 or less; it is ${prefetch}.`)
  if (attributes !== undefined) checkFunction('attributes', attributes)
  checkDuration('maxDelay', maxDelay)
  checkFunction('backoff', backoff)
  if (typeof retryQueues !== 'boolean') throw new InvalidOptionError('retryQueues', 'must be true or false.')
  if (!retryQueues && options.retryConnection !== undefined)
    throw new InvalidOptionError('retryConnection', 'has no effect without retry queues. Omit it, or set retryQueues: true.')
  const declaration = declare === undefined ? undefined : queueDeclarer(queue, queueDeclaration(declare))
  const deadLetters = declare?.arguments?.['x-dead-letter-exchange'] !== undefined
  const shared = watchConnection(connection, given)
  const receive = createReceiver({ deadLetter, deadLetterTimeout, onUndeliverable, runtime, logger: shared })
  watchConnection(retryConnection, shared, 'retryConnection')
  const counts = new DeliveryCounts({ queue, counted: declare === undefined ? undefined : (declare.type ?? 'quorum') === 'quorum' })
  const settings = {
    connection,
    queue,
    declare: declaration,
    deadLetters,
    prefetch,
    attributes,
    maxDelay,
    retryQueues,
    retryConnection,
    counts,
    backoff,
    runtime,
    logger: receive.logger,
    receive,
  }
  return createSource(() => new Subscription(settings), receive)
}
