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
import { checkCount, checkDuration, checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import { checkClient, QueueAddress, type SqsClient } from '../client.ts'
import { checkQueue, QueueUrls } from '../queue-urls.ts'
import type { HeldMessage } from './held-message.ts'
import { QueueClient } from './queue-client.ts'
import type { SqsMessage } from './read-message.ts'
import { endsSource, openingFailed } from './source-errors.ts'
import { SqsSession } from './sqs-session.ts'
import { UnseenDeliveries } from './unseen-deliveries.ts'

export interface SqsSourceOptions extends ReceiverOptions {
  /** The name of the queue, or its URL. */
  readonly queue: string
  /** The most unsettled messages that an iteration holds: those that wait to be pulled and those being handled. A router needs at least its `concurrency`. Default: 100. */
  readonly prefetch?: number | undefined
  /** Milliseconds that a request waits for the first message, up to 20,000: fewer requests, the same latency. Rounded to seconds. Default: 20,000. */
  readonly waitTime?: number | undefined
  /**
   * Milliseconds after which SQS delivers a message again that is neither settled nor extended, from 3,000 to 43,200,000. It replaces the queue's own. The source extends it while a handler runs, three times within
   * it; so it is the time after which the messages of a process that was killed come again. Default: 30,000.
   */
  readonly visibilityTimeout?: number | undefined
  /**
   * Returns the attributes of a message that SQS has delivered. If it throws, the message is rejected.
   * Default: the attributes of a CloudEvent in structured or binary mode, also in a notification of SNS or in an event of EventBridge; for other messages the message id is the id, and the
   * queue is source and type.
   */
  readonly attributes?: ((native: SqsMessage) => Attributes) | undefined
  /** The pause before a queue that could not be read is tried again. Default: 100 ms × 2ⁿ up to 30 s, ± 20 %. */
  readonly backoff?: Backoff | undefined
}

/**
 * The messages of a queue, by long polling. The client is an `SQS` of `@aws-sdk/client-sqs`. It may be iterated several times, also at the same time.
 *
 * A nack changes the visibility timeout to its delay, which SQS limits to twelve hours. With a FIFO queue one message per group is handed out at a time, in order, the next one when it is acked or
 * dead-lettered. An ack resolves when SQS has deleted the message; acks are sent in batches of up to ten. A failing request does not end an iteration: it is logged once, and tried again.
 */
export function sqsSource(client: SqsClient, options: SqsSourceOptions): Source & Closable {
  const {
    queue,
    prefetch = 100,
    waitTime = 20_000,
    visibilityTimeout = 30_000,
    attributes,
    backoff = exponentialBackoff({ initial: 100, max: 30_000 }),
    deadLetter,
    deadLetterTimeout,
    onUndeliverable,
    runtime = systemRuntime,
    logger,
    ...unknown
  } = options
  rejectUnknownOptions('An SQS source', unknown)
  checkClient(client, 'SQS', ['getQueueUrl', 'receiveMessage', 'deleteMessageBatch', 'changeMessageVisibilityBatch'])
  checkQueue('queue', queue)
  checkCount('prefetch', prefetch)
  checkDuration('waitTime', waitTime)
  if (waitTime > 20_000) throw new InvalidOptionError('waitTime', `must be at most 20,000 milliseconds; it is ${waitTime}.`)
  checkDuration('visibilityTimeout', visibilityTimeout, { min: 3000 })
  if (visibilityTimeout > 43_200_000) {
    throw new InvalidOptionError('visibilityTimeout', `must be at most 43,200,000 milliseconds, twelve hours; it is ${visibilityTimeout}.`)
  }
  if (attributes !== undefined) checkFunction('attributes', attributes)
  checkFunction('backoff', backoff)
  const receive = createReceiver({ deadLetter, deadLetterTimeout, onUndeliverable, runtime, logger })
  const [urls, address] = [new QueueUrls(client), new QueueAddress()]
  const unseen = new UnseenDeliveries()
  const settings = { queue, prefetch, waitTime, visibilityTimeout, attributes, unseen, runtime, logger: receive.logger, receive }

  return createSource<HeldMessage>(
    () => ({
      ...{ backoff, runtime, logger: receive.logger, fields: { queue } },
      lost: 'The queue is not read: SQS cannot be reached, or refuses. It is tried again.',
      restored: 'The queue is read again.',
      get system() {
        return address.system
      },
      get serverAddress() {
        return address.serverAddress
      },
      get serverPort() {
        return address.serverPort
      },
      fatalError: (reason, { opening, wasOpen }) => (opening && !wasOpen && endsSource(reason) ? openingFailed(queue, reason) : undefined),
      open: (push) => new SqsSession({ ...settings, client: new QueueClient({ client, urls, address, queue, runtime }) }, push),
      messageOf: (held) => held.session.messageOf(held),
    }),
    receive,
  )
}
