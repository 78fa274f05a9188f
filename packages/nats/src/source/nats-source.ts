import { type Attributes, type Backoff, type Closable, exponentialBackoff, type Source, systemRuntime } from '@ackord/core'
import { createReceiver, IteratedSource, type ReceiverOptions } from '@ackord/core/broker'
import { checkChoice, checkCount, checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import { type NatsConnection, ServerAddress } from '../client.ts'
import { ConnectionWatch } from '../connection-watch.ts'
import { checkSubject, checkToken } from '../headers.ts'
import { JetStreamApi } from '../jetstream-api.ts'
import { type NatsDeclaration, topologyOf } from '../topology.ts'
import { NatsIteration } from './nats-iteration.ts'
import type { NatsStreamMessage } from './read-message.ts'

export interface NatsSourceOptions extends ReceiverOptions {
  readonly stream: string
  /** The durable consumer. Sources with the same consumer share its messages; each consumer of a stream gets every message. */
  readonly consumer: string
  /**
   * Creates the consumer and the stream, unless they exist. Ends the source if they exist with other settings than given here.
   * Default: both must exist.
   */
  readonly declare?: NatsDeclaration | undefined
  /**
   * `none`: messages may overtake each other when several are handled at the same time, are nacked or redelivered. `perKey`: one message per `partitionkey` is handed
   * out at a time, in the order of the stream, the next one when it is acked or dead-lettered. `perSubject`: the same per subject. With order one source
   * reads at a time, and the others wait until it has left. Default: 'none'.
   */
  readonly order?: 'none' | 'perKey' | 'perSubject' | undefined
  /**
   * The most unsettled messages that an iteration holds: those that wait to be pulled and those being handled. A router needs at least its
   * `concurrency`. With order the consumer's `max_ack_pending` applies instead. Default: 100.
   */
  readonly prefetch?: number | undefined
  /**
   * Returns the attributes of a message that NATS has delivered. If it throws, the message is rejected.
   * Default: the attributes of a CloudEvent in binary or structured mode; for other messages `Nats-Msg-Id` or else stream and sequence are the id, the subject
   * is the type, the stream is the source, and the time is when the stream stored it.
   */
  readonly attributes?: ((native: NatsStreamMessage) => Attributes) | undefined
  /** The pause before a consumer that could not be read is tried again. Default: 100 ms × 2ⁿ up to 30 s, ± 20 %. */
  readonly backoff?: Backoff | undefined
  /** The JetStream domain. Default: the server's own. */
  readonly domain?: string | undefined
  /** The prefix of the subjects that messages are delivered to, for users that may not subscribe to all inboxes. Default: '_INBOX'. */
  readonly inboxPrefix?: string | undefined
}

/**
 * The messages of a durable pull consumer. Open the connection with `connect({ maxReconnectAttempts: -1 })` of `@nats-io/transport-node`: when the client stops
 * reconnecting, the source throws. It may be iterated several times, also at the same time.
 *
 * The source reports progress on the messages that it holds, so that NATS does not deliver them again. A lost connection does not end an iteration: it is logged once, and held messages
 * can be settled when it is restored. An ack resolves when it is queued, and is sent with the other acks of the same turn of the event loop. If an ack is lost with its connection, it is sent again, or the message is redelivered.
 */
export function natsSource(connection: NatsConnection, options: NatsSourceOptions): Source & Closable {
  const {
    stream,
    consumer,
    declare,
    order = 'none',
    prefetch = 100,
    attributes,
    backoff = exponentialBackoff({ initial: 100, max: 30_000 }),
    domain,
    inboxPrefix = '_INBOX',
    deadLetter,
    deadLetterTimeout,
    onUndeliverable,
    runtime = systemRuntime,
    logger,
    ...unknown
  } = options
  rejectUnknownOptions('A NATS source', unknown)
  checkToken('stream', stream)
  checkToken('consumer', consumer)
  checkChoice('order', order, ['none', 'perKey', 'perSubject'])
  checkCount('prefetch', prefetch)
  if (attributes !== undefined) checkFunction('attributes', attributes)
  checkFunction('backoff', backoff)
  if (domain !== undefined) checkToken('domain', domain)
  checkSubject('inboxPrefix', inboxPrefix)
  const receive = createReceiver({ deadLetter, deadLetterTimeout, onUndeliverable, runtime, logger })
  const topology = declare === undefined ? undefined : topologyOf(declare, { maxAckPending: order === 'none' ? 1000 : prefetch })
  const watch = ConnectionWatch.of(connection)
  const api = new JetStreamApi(connection, watch, domain)
  const rest = {
    stream,
    consumer,
    declare: topology,
    prefetch,
    order,
    inboxPrefix,
    attributes,
    backoff,
    runtime,
    logger: receive.logger,
    receive,
  }
  const settings = { connection, watch, api, ...rest }
  return new IteratedSource((signal, owner) => new NatsIteration(settings, signal, owner), receive, new ServerAddress(connection))
}
