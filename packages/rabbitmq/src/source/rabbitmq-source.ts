import {
  type Attributes,
  type Backoff,
  consoleLogger,
  exponentialBackoff,
  InvalidOptionError,
  type Source,
  systemRuntime,
} from '@ackord/core'
import { createReceiver, createSource, type ReceiverOptions } from '@ackord/core/broker'
import { checkCount, checkDuration, checkFunction, checkName, checkNoMore, guardLogger } from '@ackord/core/internal'
import type { RabbitmqConnection, RabbitmqMessage } from '../client.ts'
import { watchConnection } from '../connection-watch.ts'
import { queueDeclaration, queueDeclarer, type RabbitmqQueueOptions } from '../topology/declare-topology.ts'
import { DeliveryCounts } from './delivery-counts.ts'
import { Subscription } from './subscription.ts'

export interface RabbitmqSourceOptions extends ReceiverOptions {
  readonly queue: string
  /** Creates the queue if it is missing. Ends the source if it exists with other properties. Default: the queue must exist. */
  readonly declare?: RabbitmqQueueOptions | undefined
  /**
   * How many messages an iteration may hold that are not settled: those that wait to be pulled, those in hand, and those that were nacked
   * with a delay. More keeps a fast handler busy, fewer spread slow work more evenly over consumers; a router needs at least its `concurrency`.
   * Up to 65,535. Default: 100.
   */
  readonly prefetch?: number | undefined
  /**
   * The attributes of a message, from what RabbitMQ delivered. What it throws rejects the message.
   * Default: CloudEvents as the message has them, in binary or structured mode; for other messages the AMQP properties: `messageId` is the id,
   * `type` the type, `appId` or else the queue the source, `timestamp` the time, `contentType` and `correlationId` theirs.
   */
  readonly attributes?: ((native: RabbitmqMessage) => Attributes) | undefined
  /**
   * The longest delay of a nack in milliseconds; longer ones are cut. RabbitMQ closes the channel of a message that is held
   * for longer than its `consumer_timeout`, 30 minutes by default. Default: 600,000.
   */
  readonly maxDelay?: number | undefined
  /**
   * Whether nacked messages wait for their delay in retry queues of RabbitMQ, once the messages that are held in the process take half of `prefetch`: otherwise as
   * many failing messages as `prefetch` stop the source. A message goes there as a confirmed copy with the same id, before it is acked, and returns behind
   * those that came meanwhile. The queues are created when they are first needed, if the user is allowed to; `declareTopology` creates them with `retry: true`.
   * Default: true, and false where order counts: with `prefetch: 1`, or a queue declared with `x-single-active-consumer`.
   */
  readonly retryQueues?: boolean | undefined
  /**
   * The connection on which messages go to the retry queues. RabbitMQ reads nothing more from a connection that publishes during a memory or disk alarm: on the
   * source's own, acks wait with it, and the source stops until the alarm is over. Default: the source's own.
   */
  readonly retryConnection?: RabbitmqConnection | undefined
  /** The pause before a lost consumer is opened again. Default: 100 ms × 2ⁿ up to 30 s, ± 20 %. */
  readonly backoff?: Backoff | undefined
}

/**
 * The messages of a queue. The connection is amqplib's, best made with `connect(url, { recovery: true })`: a source on one that does not
 * recover throws when it is lost. Each iteration has a channel of its own. It may be iterated several times, also at once.
 *
 * A lost connection or channel does not end an iteration: it is logged once, and consumed again once that is possible. What was not settled is delivered
 * again, and settling the lost delivery rejects with `ACKORD_LEASE_LOST`. An ack resolves when it is sent: AMQP has no answer to it, so one that
 * is lost with its connection is found out by the message coming again.
 */
export function rabbitmqSource(connection: RabbitmqConnection, options: RabbitmqSourceOptions): Source & AsyncDisposable {
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
    logger: given = consoleLogger,
    ...unknown
  } = options
  checkNoMore('A RabbitMQ source', unknown)
  checkName('queue', queue)
  checkCount('prefetch', prefetch)
  if (prefetch > 65_535) throw new InvalidOptionError('prefetch', `must be 65,535 or less; it is ${prefetch}.`)
  if (attributes !== undefined) checkFunction('attributes', attributes)
  checkDuration('maxDelay', maxDelay)
  checkFunction('backoff', backoff)
  if (typeof retryQueues !== 'boolean') throw new InvalidOptionError('retryQueues', 'must be true or false.')
  if (!retryQueues && options.retryConnection !== undefined)
    throw new InvalidOptionError('retryConnection', 'is of no use without retry queues. Leave it out, or set retryQueues: true.')
  const logger = guardLogger(given)
  const receive = createReceiver({ deadLetter, deadLetterTimeout, onUndeliverable, runtime, logger })
  const declaration = declare === undefined ? undefined : queueDeclarer(queue, queueDeclaration(declare))
  const deadLetters = declare?.arguments?.['x-dead-letter-exchange'] !== undefined
  watchConnection(connection, logger)
  watchConnection(retryConnection, logger, 'retryConnection')
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
    logger,
    receive,
  }
  return createSource(() => new Subscription(settings))
}
