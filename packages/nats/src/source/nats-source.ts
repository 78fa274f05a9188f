import { type Attributes, type Backoff, consoleLogger, exponentialBackoff, type Source, systemRuntime } from '@ackord/core'
import { createReceiver, IteratedSource, type ReceiverOptions } from '@ackord/core/broker'
import { checkChoice, checkCount, checkFunction, checkNoMore, guardLogger } from '@ackord/core/internal'
import type { NatsConnection } from '../client.ts'
import { ConnectionWatch } from '../connection-watch.ts'
import { checkSubject, checkToken } from '../headers.ts'
import { JetStreamApi } from '../jetstream-api.ts'
import { type NatsDeclaration, topologyOf } from '../topology.ts'
import { NatsIteration } from './nats-iteration.ts'
import type { NatsStreamMessage } from './read-message.ts'

export interface NatsSourceOptions extends ReceiverOptions {
  readonly stream: string
  /** The durable consumer. Sources with the same one share its messages; each consumer of a stream gets every message. */
  readonly consumer: string
  /**
   * Creates the consumer, and the stream, if they are missing. Ends the source if they exist with other settings than those that are given here.
   * Default: both must exist.
   */
  readonly declare?: NatsDeclaration | undefined
  /**
   * `none`: messages may overtake each other when several are handled at once, are nacked or come again. `perKey`: of each `partitionkey` one message is handed
   * out at a time, in the order of the stream, the next one when it is acked or dead-lettered. `perSubject`: the same for each subject. With order one source
   * reads at a time, and others wait until it has left. Default: 'none'.
   */
  readonly order?: 'none' | 'perKey' | 'perSubject' | undefined
  /**
   * How many messages an iteration may hold that are not settled: those that wait to be pulled and those in hand. A router needs at least its
   * `concurrency`. With order it is the consumer's `max_ack_pending` that counts. Default: 100.
   */
  readonly prefetch?: number | undefined
  /**
   * The attributes of a message, from what NATS delivered. What it throws rejects the message.
   * Default: CloudEvents as the message has them, in binary or structured mode; for other messages `Nats-Msg-Id` or else stream and sequence as the id, the subject
   * as the type, the stream as the source, when the stream took it as the time.
   */
  readonly attributes?: ((native: NatsStreamMessage) => Attributes) | undefined
  /** The pause before a consumer that could not be read is tried again. Default: 100 ms × 2ⁿ up to 30 s, ± 20 %. */
  readonly backoff?: Backoff | undefined
  /** The JetStream domain. Default: the server's own. */
  readonly domain?: string | undefined
  /** What the subjects begin with that messages are delivered to, for users that may not subscribe to all inboxes. Default: '_INBOX'. */
  readonly inboxPrefix?: string | undefined
}

/**
 * The messages of a durable consumer, pulled. The connection is what `connect()` of `@nats-io/transport-node` resolves to, best with `maxReconnectAttempts: -1`: a
 * source on one that has given up throws. It may be iterated several times, also at once.
 *
 * While a message is here NATS is told so, and does not deliver it again. A lost connection does not end an iteration: it is logged once, messages in hand can be settled once
 * it is back, and what was not delivered comes then. An ack resolves when it is on its way, with the others of its turn of the event loop; one that is lost with its connection is sent again, or found out by the message coming again.
 */
export function natsSource(connection: NatsConnection, options: NatsSourceOptions): Source & AsyncDisposable {
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
    logger: given = consoleLogger,
    ...unknown
  } = options
  checkNoMore('A NATS source', unknown)
  checkToken('stream', stream)
  checkToken('consumer', consumer)
  checkChoice('order', order, ['none', 'perKey', 'perSubject'])
  checkCount('prefetch', prefetch)
  if (attributes !== undefined) checkFunction('attributes', attributes)
  checkFunction('backoff', backoff)
  if (domain !== undefined) checkToken('domain', domain)
  checkSubject('inboxPrefix', inboxPrefix)
  const logger = guardLogger(given)
  const receive = createReceiver({ deadLetter, deadLetterTimeout, onUndeliverable, runtime, logger })
  const topology = declare === undefined ? undefined : topologyOf(declare, { maxAckPending: order === 'none' ? 1000 : prefetch })
  const watch = ConnectionWatch.of(connection)
  const api = new JetStreamApi(connection, watch, domain)
  const rest = { stream, consumer, declare: topology, prefetch, order, inboxPrefix, attributes, backoff, runtime, logger, receive }
  const settings = { connection, watch, api, ...rest }
  return new IteratedSource((signal, owner) => new NatsIteration(settings, signal, owner))
}
