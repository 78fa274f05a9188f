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
import { checkChoice, checkCount, checkDuration, checkFunction, groupBy, rejectUnknownOptions } from '@ackord/core/internal'
import { checkClient, type SnsClient, type SnsPublishEntry } from '../client.ts'
import { type ContentMode, maxMessageAttributes, type WrittenMessage, writeMessage } from '../event-text.ts'
import { type FifoIds, fifoIds, isFifo } from '../fifo.ts'
import { failuresOf, request } from '../requests.ts'
import { tooLarge } from './publish-failures.ts'
import { sendBatches } from './send-batches.ts'

export interface SnsPublisherOptions {
  /** The ARN of the topic for a message to this destination. Default: the destination itself. */
  readonly topic?: ((destination: string, message: RawMessage) => string) | undefined
  /** `structured`: the message is the event as a JSON document. `binary`: it is the data, which must be text, and attributes are message attributes, at most ten. Default: 'structured'. */
  readonly mode?: ContentMode | undefined
  /**
   * The attributes of an event that are message attributes under the same name as well, for filter policies of subscriptions. A policy on the body needs none.
   * Default: `['type', 'source', 'subject']`; in binary mode none.
   */
  readonly filterAttributes?: readonly string[] | undefined
  /** Of FIFO topics: whether SNS drops a message that was sent before in the last five minutes, by its source and id. Default: true. */
  readonly deduplicate?: boolean | undefined
  /** Of FIFO topics: whether a batch has at most one message of each group, so that a refused entry is not overtaken by the next one of its group. Default: true. */
  readonly strictOrder?: boolean | undefined
  /** The most bytes of a message with its attributes, and of a batch. A topic allows as many as its `MaximumMessageSize`, up to 1,048,576. Default: 262,144. */
  readonly maxMessageSize?: number | undefined
  /** Milliseconds that a request may take, with the attempts of the SDK. Default: 10,000. */
  readonly timeout?: number | undefined
  readonly runtime?: Runtime | undefined
}

/**
 * Publishes to topics of SNS: a message that is `ok` is stored by SNS, which delivers it to the subscriptions that exist. The client is an `SNS` of `@aws-sdk/client-sns`; a destination is the ARN
 * of a topic. `sqsSource` reads the messages from a subscribed queue, with raw message delivery or without.
 */
export function snsPublisher(client: SnsClient, options: SnsPublisherOptions = {}): Publisher & Closable {
  const {
    topic = (destination) => destination,
    mode = 'structured',
    filterAttributes = mode === 'binary' ? [] : ['type', 'source', 'subject'],
    deduplicate = true,
    strictOrder = true,
    maxMessageSize = 262_144,
    timeout = 10_000,
    runtime = systemRuntime,
    ...unknown
  } = options
  rejectUnknownOptions('An SNS publisher', unknown)
  checkClient(client, 'SNS', ['publishBatch'])
  checkFunction('topic', topic)
  checkChoice('mode', mode, ['structured', 'binary'])
  checkFilterAttributes(filterAttributes)
  if (typeof deduplicate !== 'boolean') throw new InvalidOptionError('deduplicate', 'must be true or false.')
  if (typeof strictOrder !== 'boolean') throw new InvalidOptionError('strictOrder', 'must be true or false.')
  checkCount('maxMessageSize', maxMessageSize, { min: 1024 })
  checkDuration('timeout', timeout, { min: 1 })
  const settings = { topic, mode, filterAttributes, deduplicate, strictOrder, maxMessageSize, timeout, runtime }
  return createPublisher(new SnsPublisherDriver(client, settings))
}

// The content type and the three of the trace are message attributes too.
const maxFilterAttributes = maxMessageAttributes - 4

function checkFilterAttributes(names: unknown): void {
  // The publisher itself writes message attributes with the other names.
  const isName = (name: unknown) => typeof name === 'string' && /^(?!ce[_-]|content-type$)[a-z0-9_-]{1,200}$/i.test(name)
  if (Array.isArray(names) && names.length <= maxFilterAttributes && names.every(isName)) return
  throw new InvalidOptionError('filterAttributes', `must be an array of up to ${maxFilterAttributes} names of attributes.`)
}

interface PublisherSettings {
  readonly topic: (destination: string, message: RawMessage) => string
  readonly mode: ContentMode
  readonly filterAttributes: readonly string[]
  readonly deduplicate: boolean
  readonly strictOrder: boolean
  readonly maxMessageSize: number
  readonly timeout: number
  readonly runtime: Runtime
}

interface TopicMessage {
  readonly topic: string
  readonly written: WrittenMessage
  readonly fifo: FifoIds | undefined
  readonly size: number
  readonly group: string | undefined
}

class SnsPublisherDriver implements PublisherDriver<TopicMessage> {
  readonly broker = 'SNS'
  readonly system = 'aws.sns'
  readonly routeName = 'topic'
  // Every call ends by its time limits.
  readonly closeTimeout = Number.POSITIVE_INFINITY
  readonly #client: SnsClient
  readonly #settings: PublisherSettings

  constructor(client: SnsClient, settings: PublisherSettings) {
    this.#client = client
    this.#settings = settings
  }

  route(destination: string, message: RawMessage): string {
    return checkTopic(this.#settings.topic(destination, message))
  }

  write(message: RawMessage, topic: string): TopicMessage | PublishFailure {
    const { mode, filterAttributes, deduplicate, maxMessageSize, runtime } = this.#settings
    const written = writeMessage(message, mode, filterAttributes)
    if (written.size > maxMessageSize) return tooLarge(targetOf(topic), written.size, maxMessageSize)
    const fifo = isFifo(topic) ? fifoIds(message, { deduplicate, runtime }) : undefined
    return { topic, written, fifo, size: written.size, group: fifo?.group }
  }

  async send(messages: readonly Outgoing<TopicMessage>[], { signal }: SendOptions): Promise<void> {
    const { timeout, runtime, strictOrder, maxMessageSize } = this.#settings
    for (const [topic, ofTopic] of groupBy(messages, ({ item }) => item.topic)) {
      await sendBatches(ofTopic, {
        ...{ target: targetOf(topic), maxSize: maxMessageSize, onePerGroup: strictOrder, signal },
        send: async (items) => {
          const input = { TopicArn: topic, PublishBatchRequestEntries: items.map(entryOf) }
          return failuresOf(items.length, await request(runtime, timeout, signal, (options) => this.#client.publishBatch(input, options)))
        },
      })
    }
  }
}

const topicArn = /^arn:[a-z0-9-]+:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?$/

function checkTopic(topic: unknown): string {
  if (typeof topic === 'string' && topicArn.test(topic)) return topic
  throw new InvalidOptionError(
    'topic',
    `must be the ARN of a topic, such as 'arn:aws:sns:eu-central-1:123456789012:orders'; it is ${JSON.stringify(topic)}.`,
  )
}

function entryOf({ written, fifo }: TopicMessage, index: number): SnsPublishEntry {
  return {
    Id: String(index),
    Message: written.body,
    MessageAttributes: written.attributes,
    ...(fifo === undefined ? {} : { MessageGroupId: fifo.group, MessageDeduplicationId: fifo.deduplication }),
  }
}

function targetOf(topic: string): string {
  return `topic '${topic}'`
}
