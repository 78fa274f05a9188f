import {
  type Closable,
  InvalidOptionError,
  type Publisher,
  type PublishFailure,
  type RawMessage,
  type Runtime,
  systemRuntime,
} from '@ackord/core'
import { createPublisher, type Outgoing, type PublisherDriver, type SendOptions } from '@ackord/core/broker'
import {
  checkChoice,
  checkCount,
  checkDuration,
  checkFunction,
  groupBy,
  redactDestination,
  rejectUnknownOptions,
} from '@ackord/core/internal'
import { isMissing } from '../aws-errors.ts'
import { checkClient, QueueAddress, type SqsPublisherClient, type SqsSendEntry } from '../client.ts'
import { type ContentMode, type WrittenMessage, writeMessage } from '../event-text.ts'
import { type FifoIds, fifoIds, isFifo } from '../fifo.ts'
import { checkQueue, QueueUrls } from '../queue-urls.ts'
import { failuresOf, request } from '../requests.ts'
import { requestFailed, tooLarge } from './publish-failures.ts'
import { sendBatches } from './send-batches.ts'

export interface SqsPublisherOptions {
  /** The name or URL of the queue for a message to this destination. Default: the destination itself. */
  readonly queue?: ((destination: string, message: RawMessage) => string) | undefined
  /**
   * `structured`: the body is the event as a JSON document, with any data and any number of attributes. `binary`: the body is the data, which must be text, and attributes are
   * message attributes, at most ten; for consumers that expect the data alone. Default: 'structured'.
   */
  readonly mode?: ContentMode | undefined
  /**
   * Of FIFO queues: whether a message has a deduplication id made of its source and id, by which SQS drops it if it was sent before in the last five minutes. `false` for messages
   * that were in the queue recently and must be stored again, such as replayed dead letters. Default: true.
   */
  readonly deduplicate?: boolean | undefined
  /**
   * Of FIFO queues: whether a batch has at most one message of each group. SQS may refuse a single entry of a batch, and the next message of its group must not overtake it. `false`: ten
   * messages of a group fit into one request, and a refused entry can lose its place. Default: true.
   */
  readonly strictOrder?: boolean | undefined
  /** The most bytes of a message with its attributes, and of a batch; that of SQS, or less if the queue has a smaller `MaximumMessageSize`. Default: 1,048,576. */
  readonly maxMessageSize?: number | undefined
  /** Milliseconds that a request may take, with the attempts of the SDK. Default: 10,000. */
  readonly timeout?: number | undefined
  readonly runtime?: Runtime | undefined
}

/**
 * Publishes to SQS: a message that is `ok` is stored. The client is an `SQS` of `@aws-sdk/client-sqs`, such as `new SQS({ region })`. The messages of a call are sent in their order, in
 * batches of up to ten, one batch after the other; each message has its own result.
 *
 * For a FIFO queue the group is the message's `partitionkey`; a message without one is a group of its own.
 */
export function sqsPublisher(client: SqsPublisherClient, options: SqsPublisherOptions = {}): Publisher & Closable {
  const {
    queue = (destination) => destination,
    mode = 'structured',
    deduplicate = true,
    strictOrder = true,
    maxMessageSize = 1_048_576,
    timeout = 10_000,
    runtime = systemRuntime,
    ...unknown
  } = options
  rejectUnknownOptions('An SQS publisher', unknown)
  checkClient(client, 'SQS', ['getQueueUrl', 'sendMessageBatch'])
  checkFunction('queue', queue)
  checkChoice('mode', mode, ['structured', 'binary'])
  if (typeof deduplicate !== 'boolean') throw new InvalidOptionError('deduplicate', 'must be true or false.')
  if (typeof strictOrder !== 'boolean') throw new InvalidOptionError('strictOrder', 'must be true or false.')
  checkCount('maxMessageSize', maxMessageSize, { min: 1024 })
  checkDuration('timeout', timeout, { min: 1 })
  return createPublisher(new SqsPublisherDriver(client, { queue, mode, deduplicate, strictOrder, maxMessageSize, timeout, runtime }))
}

interface PublisherSettings {
  readonly queue: (destination: string, message: RawMessage) => string
  readonly mode: ContentMode
  readonly deduplicate: boolean
  readonly strictOrder: boolean
  readonly maxMessageSize: number
  readonly timeout: number
  readonly runtime: Runtime
}

interface QueueMessage {
  readonly queue: string
  readonly written: WrittenMessage
  readonly fifo: FifoIds | undefined
  readonly size: number
  readonly group: string | undefined
}

class SqsPublisherDriver implements PublisherDriver<QueueMessage> {
  readonly broker = 'SQS'
  readonly routeName = 'queue'
  // Every call ends by its time limits.
  readonly closeTimeout = Number.POSITIVE_INFINITY
  readonly #client: SqsPublisherClient
  readonly #urls: QueueUrls
  readonly #address = new QueueAddress()
  readonly #settings: PublisherSettings

  constructor(client: SqsPublisherClient, settings: PublisherSettings) {
    this.#client = client
    this.#urls = new QueueUrls(client)
    this.#settings = settings
  }

  get system(): string {
    return this.#address.system
  }

  get serverAddress(): string | undefined {
    return this.#address.serverAddress
  }

  get serverPort(): number | undefined {
    return this.#address.serverPort
  }

  route(destination: string, message: RawMessage): string {
    return checkQueue('queue', this.#settings.queue(destination, message))
  }

  write(message: RawMessage, queue: string): QueueMessage | PublishFailure {
    const { mode, deduplicate, maxMessageSize, runtime } = this.#settings
    const written = writeMessage(message, mode)
    if (written.size > maxMessageSize) return tooLarge(targetOf(queue), written.size, maxMessageSize)
    const fifo = isFifo(queue) ? fifoIds(message, { deduplicate, runtime }) : undefined
    return { queue, written, fifo, size: written.size, group: fifo?.group }
  }

  async send(messages: readonly Outgoing<QueueMessage>[], { signal }: SendOptions): Promise<void> {
    for (const [queue, ofQueue] of groupBy(messages, ({ item }) => item.queue)) await this.#sendTo(queue, ofQueue, signal)
  }

  async #sendTo(queue: string, messages: readonly Outgoing<QueueMessage>[], signal: AbortSignal): Promise<void> {
    const { timeout, runtime, strictOrder, maxMessageSize } = this.#settings
    const target = targetOf(queue)
    let url: string
    try {
      url = await request(runtime, timeout, signal, (options) => this.#urls.urlOf(queue, options))
    } catch (error) {
      for (const message of messages) message.settle(requestFailed(target, error))
      return
    }
    this.#address.seen(url)
    await sendBatches(messages, {
      ...{ target, maxSize: maxMessageSize, onePerGroup: strictOrder, signal },
      send: async (items) => {
        const input = { QueueUrl: url, Entries: items.map(entryOf) }
        try {
          return failuresOf(
            items.length,
            await request(runtime, timeout, signal, (options) => this.#client.sendMessageBatch(input, options)),
          )
        } catch (error) {
          if (isMissing(error)) this.#urls.forget(queue)
          throw error
        }
      },
    })
  }
}

function entryOf({ written, fifo }: QueueMessage, index: number): SqsSendEntry {
  return {
    Id: String(index),
    MessageBody: written.body,
    MessageAttributes: written.attributes,
    ...(fifo === undefined ? {} : { MessageGroupId: fifo.group, MessageDeduplicationId: fifo.deduplication }),
  }
}

function targetOf(queue: string): string {
  return `queue '${redactDestination(queue)}'`
}
