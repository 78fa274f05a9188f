import {
  type Closable,
  type Publisher,
  type PublishFailure,
  type PublishResult,
  type RawMessage,
  type Runtime,
  systemRuntime,
} from '@ackord/core'
import {
  createPublisher,
  destinationFailure,
  notTriedFailure,
  type Outgoing,
  type PublisherDriver,
  parseAddress,
  permanentFailure,
  type SendOptions,
} from '@ackord/core/broker'
import {
  abortable,
  answerTimeout,
  checkChoice,
  checkFunction,
  checkName,
  groupBy,
  rejectUnknownOptions,
  settledWithin,
} from '@ackord/core/internal'
import type { KafkaFault, KafkaPort, KafkaProducer, KafkaRecord } from '../port.ts'
import { writeRecord } from './write-record.ts'

export interface KafkaPublisherOptions {
  /** The topic of a message to this destination. Default: the topic of that name. */
  readonly route?: ((destination: string, message: RawMessage) => string) | undefined
  /** How events are written: attributes as headers, or attributes and data as JSON in the value. Default: 'binary'. */
  readonly mode?: 'binary' | 'structured' | undefined
  readonly runtime?: Runtime | undefined
}

/**
 * Publishes to Kafka: a message that is `ok` is on all in-sync replicas. The messages of a call are sent to each topic in one request; messages with the same `partitionkey` go to one partition,
 * in their order. A message that was not confirmed may be stored nevertheless; when it is published again, it has the same id.
 */
export function kafkaPublisher(kafka: KafkaPort, options: KafkaPublisherOptions = {}): Publisher & Closable {
  const { route = toTopic, mode = 'binary', runtime = systemRuntime, ...unknown } = options
  rejectUnknownOptions('A Kafka publisher', unknown)
  checkFunction('kafka.producer', kafka?.producer)
  checkFunction('route', route)
  checkChoice('mode', mode, ['binary', 'structured'])
  return createPublisher(new KafkaPublisherDriver(kafka, { route, mode, runtime }))
}

interface PublisherSettings {
  readonly route: (destination: string, message: RawMessage) => string
  readonly mode: 'binary' | 'structured'
  readonly runtime: Runtime
}

interface TopicRecord {
  readonly topic: string
  readonly record: KafkaRecord
}

const ok: PublishResult = { ok: true }

class KafkaPublisherDriver implements PublisherDriver<TopicRecord> {
  readonly broker = 'Kafka'
  readonly system = 'kafka'
  readonly routeName = 'topic'
  readonly runtime: Runtime
  readonly #kafka: KafkaPort
  readonly #settings: PublisherSettings
  readonly #closing = new Set<Promise<void>>()
  #producer: OpenProducer | undefined
  #closed = false

  constructor(kafka: KafkaPort, settings: PublisherSettings) {
    this.#kafka = kafka
    this.#settings = settings
    this.runtime = settings.runtime
  }

  get serverAddress(): string | undefined {
    return parseAddress(this.#kafka.broker).serverAddress
  }

  get serverPort(): number | undefined {
    return parseAddress(this.#kafka.broker).serverPort
  }

  route(destination: string, message: RawMessage): string {
    return checkName('route', this.#settings.route(destination, message))
  }

  write(message: RawMessage, topic: string): TopicRecord {
    return { topic, record: writeRecord(message, this.#settings.mode) }
  }

  async send(messages: readonly Outgoing<TopicRecord>[], { signal }: SendOptions): Promise<void> {
    const topics = groupBy(messages, ({ item }) => item.topic)
    await Promise.all(Array.from(topics, ([topic, group]) => this.#send(topic, group, signal)))
  }

  async close(): Promise<void> {
    this.#closed = true
    const producer = this.#producer
    this.#producer = undefined
    await Promise.all([producer?.close(), ...this.#closing])
  }

  /**
   * One send for all messages of a topic. A send that is refused because of one message is halved until that message is alone: the client does not say which one it
   * was. Never rejects.
   */
  async #send(topic: string, group: readonly Outgoing<TopicRecord>[], signal: AbortSignal): Promise<void> {
    const parts: (readonly Outgoing<TopicRecord>[])[] = [group]
    let earlier: PublishFailure | undefined
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
      // The messages are settled already.
      if (signal.aborted || this.#closed) return
      if (earlier !== undefined) {
        const failure = notTriedFailure(`topic '${topic}'`, earlier)
        for (const message of part) message.settle(failure)
        continue
      }
      this.#producer ??= new OpenProducer(this.#kafka, this.runtime)
      const producer = this.#producer
      try {
        const records = part.map(({ item }) => item.record)
        await abortable(producer.send(topic, records, signal), signal)
        for (const message of part) message.settle(ok)
      } catch (error) {
        const fault = this.#kafka.faultOf(error)
        const isUnusable = signal.aborted ? !producer.opening : fault === 'other' || fault === 'access'
        if (isUnusable || producer.failed) this.#replace(producer)
        if (signal.aborted) return
        if (fault === 'message' && part.length > 1) {
          const middle = Math.ceil(part.length / 2)
          parts.unshift(part.slice(0, middle), part.slice(middle))
          continue
        }
        let failure: PublishFailure | undefined
        for (const message of part) {
          failure = notSent(topic, message.item.record.value.byteLength, fault, error)
          message.settle(failure)
        }
        // A message that is never accepted does not hold back the others.
        if (fault !== 'message') earlier = failure
      }
    }
  }

  /** The next call gets a new producer: the client keeps a connection on which no more answers come, and one on which it could not log in. */
  #replace(producer: OpenProducer): void {
    if (this.#producer !== producer) return
    this.#producer = undefined
    // Other sends of this producer may still succeed.
    const closing = producer.idle().then(() => producer.close())
    this.#closing.add(closing)
    void closing.then(() => this.#closing.delete(closing))
  }
}

/** The failure of a message that was sent alone, from the client's error. */
function notSent(topic: string, size: number, fault: KafkaFault, cause: unknown): PublishFailure {
  if (fault === 'message') {
    const text = `Kafka does not accept a message of ${size} bytes to topic '${topic}': it is too large (max.message.bytes), or the topic does not allow records of its form.`
    return permanentFailure(text, cause)
  }
  return destinationFailure(`A message to topic '${topic}' was not confirmed: ${reasonOf(fault)}`, cause)
}

function reasonOf(fault: KafkaFault): string {
  if (fault === 'access') return 'the user is not allowed to, or could not log in.'
  if (fault === 'topic') return 'the topic does not exist. Create it before publishing to it.'
  return 'the cause says why. Kafka may have stored it nevertheless.'
}

function toTopic(destination: string): string {
  return destination
}

/** Milliseconds after which a connection that is still being opened counts as unanswered. */
const maxOpening = 10_000

/** A producer, from the moment that it is needed until its last send has ended. */
class OpenProducer {
  readonly #opening: Promise<KafkaProducer>
  readonly #sends = new Set<Promise<void>>()
  readonly #runtime: Runtime
  readonly #begun: number
  #state: 'opening' | 'open' | 'failed' = 'opening'

  constructor(kafka: KafkaPort, runtime: Runtime) {
    this.#runtime = runtime
    this.#begun = runtime.monotonic()
    this.#opening = open(kafka)
    this.#opening.then(
      () => {
        this.#state = 'open'
      },
      () => {
        this.#state = 'failed'
      },
    )
  }

  /** Whether it could not be opened, and will never send anything. */
  get failed(): boolean {
    return this.#state === 'failed'
  }

  /** Whether it is still being opened. Calls with a shorter time limit than connecting takes must not replace it, or no call would ever get a producer. */
  get opening(): boolean {
    return this.#state === 'opening' && this.#runtime.monotonic() - this.#begun < maxOpening
  }

  /** A message whose call was aborted before it could be sent is not sent: the caller may have published it again by then, and others after it. */
  send(topic: string, records: readonly KafkaRecord[], signal: AbortSignal): Promise<void> {
    const sending = this.#opening.then((producer) => {
      signal.throwIfAborted()
      return producer.send(topic, records)
    })
    this.#sends.add(sending)
    const remove = () => void this.#sends.delete(sending)
    sending.then(remove, remove)
    return sending
  }

  /** Resolves when all sends have ended, or after five seconds. */
  async idle(): Promise<void> {
    await settledWithin(this.#runtime, answerTimeout, Promise.allSettled(this.#sends))
  }

  /** Waits for the client, for up to five seconds. */
  async close(): Promise<void> {
    await settledWithin(
      this.#runtime,
      answerTimeout,
      this.#opening.then((producer) => producer.close()),
    )
  }
}

async function open(kafka: KafkaPort): Promise<KafkaProducer> {
  const producer = kafka.producer()
  try {
    await producer.connect()
  } catch (error) {
    await producer.close().catch(() => {})
    throw error
  }
  return producer
}
