import {
  AckordError,
  outside,
  type Publisher,
  type PublishFailure,
  type PublishResult,
  type RawMessage,
  type Runtime,
  systemRuntime,
} from '@ackord/core'
import { abortable, answerTimeout, checkChoice, checkFunction, checkName, checkNoMore, settledWithin } from '@ackord/core/internal'
import type { KafkaPort, KafkaProducer, KafkaRecord } from './port.ts'
import { aborted, notSent, notTried, unrouted, unwritable, wrongData } from './publish-failures.ts'
import { writeRecord } from './write-record.ts'

export interface KafkaPublisherOptions {
  /** The topic of a message to this destination. Default: the topic of that name. */
  readonly route?: ((destination: string, message: RawMessage) => string) | undefined
  /** How events are written: attributes as headers, or all of it as JSON in the value. Default: 'binary'. */
  readonly mode?: 'binary' | 'structured' | undefined
  readonly runtime?: Runtime | undefined
}

/**
 * Publishes to Kafka: what is `ok` is on all in-sync replicas. The messages of a call go to each topic in one send; those with one `partitionkey` to one partition,
 * in their order. What was not confirmed may be there all the same, and comes again with the same id.
 */
export function kafkaPublisher(kafka: KafkaPort, options: KafkaPublisherOptions = {}): Publisher & AsyncDisposable {
  const { route = toTopic, mode = 'binary', runtime = systemRuntime, ...unknown } = options
  checkNoMore('A Kafka publisher', unknown)
  checkFunction('kafka.producer', kafka?.producer)
  checkFunction('route', route)
  checkChoice('mode', mode, ['binary', 'structured'])
  return new KafkaPublisher(kafka, { route, mode, runtime })
}

interface PublisherSettings {
  readonly route: (destination: string, message: RawMessage) => string
  readonly mode: 'binary' | 'structured'
  readonly runtime: Runtime
}

interface Outgoing {
  readonly topic: string
  readonly record: KafkaRecord
  /** The first result counts. */
  readonly settle: (result: PublishResult) => void
}

const ok: PublishResult = { ok: true }

class KafkaPublisher implements Publisher, AsyncDisposable {
  readonly #kafka: KafkaPort
  readonly #settings: PublisherSettings
  readonly #sending = new Set<Promise<unknown>>()
  #producer: Promise<KafkaProducer> | undefined
  #disposing: Promise<void> | undefined

  constructor(kafka: KafkaPort, settings: PublisherSettings) {
    this.#kafka = kafka
    this.#settings = settings
  }

  async publish(
    destination: string,
    messages: readonly RawMessage[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly PublishResult[]> {
    if (this.#disposing !== undefined) throw new AckordError('ACKORD_SHUTDOWN', 'The Kafka publisher is closed.')
    checkName('destination', destination)
    options.signal.throwIfAborted()
    // The producer is used again by later calls, so it must not keep the context of this one.
    const sending = outside(() => this.#publish(destination, messages, options.signal))
    this.#sending.add(sending)
    try {
      return await sending
    } finally {
      this.#sending.delete(sending)
    }
  }

  /** Waits a while for what is being sent, and closes the producer. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#disposing ??= this.#dispose()
    return this.#disposing
  }

  /** Never rejects. */
  async #publish(destination: string, messages: readonly RawMessage[], signal: AbortSignal): Promise<readonly PublishResult[]> {
    const topics = new Map<string, Outgoing[]>()
    const results = messages.map((message) => {
      const prepared = this.#prepare(destination, message)
      if ('ok' in prepared) return prepared
      return new Promise<PublishResult>((settle) => {
        const group = topics.get(prepared.topic)
        const outgoing = { ...prepared, settle }
        if (group === undefined) topics.set(prepared.topic, [outgoing])
        else group.push(outgoing)
      })
    })
    await Promise.all([...topics].map(([topic, group]) => this.#send(topic, group, signal)))
    return await Promise.all(results)
  }

  #prepare(destination: string, message: RawMessage): Omit<Outgoing, 'settle'> | PublishFailure {
    const { route, mode } = this.#settings
    if (!(message.data instanceof Uint8Array)) return wrongData(destination, message.data)
    let topic: string
    try {
      topic = checkName('route', route(destination, message))
    } catch (cause) {
      return unrouted(destination, cause)
    }
    try {
      return { topic, record: writeRecord(message, mode) }
    } catch (cause) {
      return unwritable(topic, cause)
    }
  }

  /**
   * One send for all. A send that is refused for one of its messages is halved until that is alone: the client does not say which it was. Never rejects.
   */
  async #send(topic: string, group: readonly Outgoing[], signal: AbortSignal): Promise<void> {
    const parts: (readonly Outgoing[])[] = [group]
    let failure: { readonly error: unknown } | undefined
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
      if (failure !== undefined) {
        for (const { settle } of part) settle(notTried(topic, failure.error))
        continue
      }
      try {
        await abortable(this.#sendNow(topic, part), signal)
        for (const { settle } of part) settle(ok)
      } catch (error) {
        const fault = this.#kafka.faultOf(error)
        if (signal.aborted) for (const { settle } of part) settle(aborted(signal.reason))
        else if (fault === 'message' && part.length > 1) {
          const middle = Math.ceil(part.length / 2)
          parts.unshift(part.slice(0, middle), part.slice(middle))
          continue
        } else for (const { settle, record } of part) settle(notSent(topic, record.value.byteLength, fault, error))
        // One that is never taken is not waited for.
        if (signal.aborted || fault !== 'message') failure = { error }
      }
    }
  }

  async #sendNow(topic: string, part: readonly Outgoing[]): Promise<void> {
    const producer = await this.#connect()
    await producer.send(
      topic,
      part.map(({ record }) => record),
    )
  }

  #connect(): Promise<KafkaProducer> {
    if (this.#producer === undefined) {
      const connecting = this.#open()
      this.#producer = connecting
      connecting.catch(() => {
        this.#producer = undefined
      })
    }
    return this.#producer
  }

  async #open(): Promise<KafkaProducer> {
    const producer = this.#kafka.producer()
    try {
      await producer.connect()
    } catch (error) {
      await producer.close().catch(() => {})
      throw error
    }
    return producer
  }

  async #dispose(): Promise<void> {
    const { runtime } = this.#settings
    await settledWithin(runtime, answerTimeout, Promise.all(this.#sending))
    const closing = this.#producer?.then((producer) => producer.close())
    if (closing !== undefined) await settledWithin(runtime, answerTimeout, closing)
  }
}

function toTopic(destination: string): string {
  return destination
}
