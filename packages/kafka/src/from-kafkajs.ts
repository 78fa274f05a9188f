import { AckordError, InvalidOptionError } from '@ackord/core'
import { causesOf, checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import type {
  KafkaConsumer,
  KafkaConsumerEvents,
  KafkaConsumerOptions,
  KafkaFault,
  KafkaMessage,
  KafkaPort,
  KafkaProducer,
} from './port.ts'

/** The part of KafkaJS 2 that is used. Its object is passed in; KafkaJS itself is not imported. */
export interface KafkaJs {
  producer(config: object): KafkaJsProducer
  consumer(config: { groupId: string }): KafkaJsConsumer
}

export interface KafkaJsProducer {
  connect(): Promise<void>
  disconnect(): Promise<void>
  send(record: { topic: string; acks: number; messages: KafkaJsRecord[] }): Promise<unknown>
  on?(event: 'producer.network.request', listener: (event: KafkaJsAnswer) => void): unknown
}

/** The event with which KafkaJS reports an answered request. */
export interface KafkaJsAnswer {
  payload: { broker: string }
}

export interface KafkaJsRecord {
  key: Buffer | null
  value: Buffer
  headers: Record<string, string>
}

export interface KafkaJsConsumer {
  connect(): Promise<void>
  disconnect(): Promise<void>
  subscribe(subscription: { topics: string[]; fromBeginning: boolean }): Promise<void>
  run(config: { autoCommit: boolean; eachBatchAutoResolve: boolean; eachBatch: (payload: KafkaJsBatch) => Promise<void> }): Promise<void>
  commitOffsets(offsets: { topic: string; partition: number; offset: string }[]): Promise<void>
  pause(topics: { topic: string; partitions: number[] }[]): void
  resume(topics: { topic: string; partitions: number[] }[]): void
  on(event: 'consumer.group_join', listener: (event: { payload: KafkaJsAssignment }) => void): unknown
  on(event: 'consumer.rebalancing' | 'consumer.heartbeat', listener: () => void): unknown
  on(event: 'consumer.network.request', listener: (event: KafkaJsAnswer) => void): unknown
  on(event: 'consumer.crash', listener: (event: { payload: { error: Error } }) => void): unknown
}

export interface KafkaJsAssignment {
  memberId: string
  memberAssignment: Record<string, number[]>
}

export interface KafkaJsBatch {
  batch: { topic: string; partition: number; messages: KafkaJsMessage[] }
  resolveOffset(offset: string): void
}

export interface KafkaJsMessage {
  key: Buffer | null
  value: Buffer | null
  timestamp: string
  offset: string
  headers?: Record<string, Buffer | string | (Buffer | string)[] | undefined>
}

export interface FromKafkaJsOptions {
  /** Further options for `kafka.producer()`, such as `{ idempotent: true, maxInFlightRequests: 1 }`. Default: topics are not created. */
  readonly producer?: object | undefined
  /** Further options for `kafka.consumer()`, such as `{ sessionTimeout: 45_000 }`. Default: topics are not created. */
  readonly consumer?: object | undefined
}

/** Adapts KafkaJS 2: `fromKafkaJs(new Kafka({ brokers }))`. Sources and publishers open producers and consumers through it, and close them. */
export function fromKafkaJs(kafka: KafkaJs, options: FromKafkaJsOptions = {}): KafkaPort {
  const { producer = {}, consumer = {}, ...unknown } = options
  rejectUnknownOptions('fromKafkaJs()', unknown)
  checkFunction('kafka.producer', kafka?.producer)
  checkFunction('kafka.consumer', kafka.consumer)
  for (const [name, value] of Object.entries({ producer, consumer })) {
    if (typeof value !== 'object' || value === null) throw new InvalidOptionError(name, 'must be an object with options of KafkaJS.')
  }
  let broker: string | undefined
  const onAnswer = ({ payload }: KafkaJsAnswer) => {
    broker = payload.broker
  }
  return {
    producer() {
      const created = kafka.producer({ allowAutoTopicCreation: false, ...producer })
      created.on?.('producer.network.request', onAnswer)
      return openProducer(created)
    },
    consumer: (settings, events) => new JsConsumer(kafka, { config: consumer, settings, events, onAnswer }),
    faultOf,
    // KafkaJS does not show the brokers that it was configured with.
    get broker() {
      return broker
    },
  }
}

const allReplicas = -1

function openProducer(producer: KafkaJsProducer): KafkaProducer {
  const sends = new Set<Promise<unknown>>()
  return {
    connect: () => producer.connect(),
    async send(topic, records) {
      const messages = records.map(({ key, value, headers }) => ({ key, value, headers: { ...headers } }))
      const sending = producer.send({ topic, acks: allReplicas, messages })
      sends.add(sending)
      try {
        await sending
      } finally {
        sends.delete(sending)
      }
    },
    async close() {
      const unanswered = [...sends]
      await producer.disconnect()
      if (unanswered.length === 0) return
      // KafkaJS retries these sends, and connects again although it was closed; that connection must be closed too.
      await Promise.allSettled(unanswered)
      await producer.disconnect()
    },
  }
}

interface JsConsumerOptions {
  readonly config: object
  readonly settings: KafkaConsumerOptions
  readonly events: KafkaConsumerEvents
  readonly onAnswer: (event: KafkaJsAnswer) => void
}

class JsConsumer implements KafkaConsumer {
  readonly #consumer: KafkaJsConsumer
  readonly #settings: KafkaConsumerOptions
  readonly #events: KafkaConsumerEvents
  #closed = false

  constructor(kafka: KafkaJs, { config, settings, events, onAnswer }: JsConsumerOptions) {
    this.#settings = settings
    this.#events = events
    // KafkaJS would restart the consumer by itself, and could not be stopped; the source creates another consumer instead.
    const retry = { ...('retry' in config ? (config.retry as object) : {}), restartOnFailure: () => Promise.resolve(false) }
    this.#consumer = kafka.consumer({ allowAutoTopicCreation: false, ...config, retry, groupId: settings.group } as { groupId: string })
    this.#consumer.on('consumer.group_join', ({ payload }) => {
      const partitions = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) =>
        numbers.map((partition) => ({ topic, partition })),
      )
      events.assigned(partitions, payload.memberId)
    })
    this.#consumer.on('consumer.network.request', onAnswer)
    this.#consumer.on('consumer.rebalancing', () => events.revoking())
    // No heartbeat comes between a rebalance and the join, where it would prove nothing: only fetchers send them, and all have ended before a rebalance is reported.
    this.#consumer.on('consumer.heartbeat', () => events.confirmed())
    this.#consumer.on('consumer.crash', ({ payload }) => events.crashed(payload.error))
  }

  async start(): Promise<void> {
    const { topics, from } = this.#settings
    await this.#step(() => this.#consumer.connect())
    await this.#step(() => this.#consumer.subscribe({ topics: [...topics], fromBeginning: from === 'oldest' }))
    await this.#step(() =>
      this.#consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: (payload) => this.#onBatch(payload) }),
    )
  }

  commit(offsets: readonly { readonly topic: string; readonly partition: number; readonly offset: string }[]): Promise<void> {
    return this.#consumer.commitOffsets([...offsets])
  }

  pause({ topic, partition }: { readonly topic: string; readonly partition: number }): void {
    this.#consumer.pause([{ topic, partitions: [partition] }])
  }

  resume({ topic, partition }: { readonly topic: string; readonly partition: number }): void {
    this.#consumer.resume([{ topic, partitions: [partition] }])
  }

  close(): Promise<void> {
    this.#closed = true
    return this.#consumer.disconnect()
  }

  /** If it is closed while it starts, KafkaJS would continue and stay in the group, without a reader. */
  async #step(step: () => Promise<void>): Promise<void> {
    if (!this.#closed) await step()
    if (!this.#closed) return
    await this.#consumer.disconnect()
    throw new AckordError('ACKORD_SHUTDOWN', 'The consumer was closed while it started.')
  }

  async #onBatch({ batch, resolveOffset }: KafkaJsBatch): Promise<void> {
    const { topic, partition } = batch
    const messages: KafkaMessage[] = batch.messages.map(({ key, value, timestamp, offset, headers = {} }) => ({
      topic,
      partition,
      key,
      value,
      timestamp,
      offset,
      headers,
    }))
    const last = messages[this.#events.fetched({ topic, partition }, messages) - 1]
    if (last !== undefined) resolveOffset(last.offset)
  }
}

const refusedMessages: readonly unknown[] = ['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_RECORD']
const noAccess: readonly unknown[] = [
  'TOPIC_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'SASL_AUTHENTICATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
  'ILLEGAL_SASL_STATE',
]
const noTopic: readonly unknown[] = ['UNKNOWN_TOPIC_OR_PARTITION', 'INVALID_TOPIC_EXCEPTION']

/** KafkaJS wraps errors in others, one for each of its attempts. */
function faultOf(error: unknown): KafkaFault {
  for (const cause of causesOf(error)) {
    if (!(cause instanceof Error)) continue
    const type: unknown = 'type' in cause ? cause.type : undefined
    if (refusedMessages.includes(type)) return 'message'
    if (noAccess.includes(type) || cause.name === 'KafkaJSSASLAuthenticationError') return 'access'
    if (noTopic.includes(type)) return 'topic'
  }
  return 'other'
}
