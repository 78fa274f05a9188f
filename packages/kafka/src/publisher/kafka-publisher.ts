import { type Publisher, type PublishFailure, type PublishResult, type RawMessage, type Runtime, systemRuntime } from '@ackord/core'
import {
  abortable,
  answerTimeout,
  checkChoice,
  checkFunction,
  checkName,
  checkNoMore,
  PublishCalls,
  settledWithin,
} from '@ackord/core/internal'
import type { KafkaPort, KafkaProducer, KafkaRecord } from '../port.ts'
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
  readonly #calls = new PublishCalls('The Kafka publisher')
  readonly #closing = new Set<Promise<void>>()
  #producer: OpenProducer | undefined
  /** From then on nothing is sent any more, also by calls that have not ended. */
  #closed = false
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
    return await this.#calls.run(destination, options.signal, () => this.#publish(destination, messages, options.signal))
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
      if (this.#closed) failure ??= { error: this.#calls.closedError() }
      if (failure !== undefined) {
        for (const { settle } of part) settle(notTried(topic, failure.error))
        continue
      }
      this.#producer ??= new OpenProducer(this.#kafka, this.#settings.runtime)
      const producer = this.#producer
      try {
        const records = part.map(({ record }) => record)
        await abortable(producer.send(topic, records, signal), signal)
        for (const { settle } of part) settle(ok)
      } catch (error) {
        const fault = this.#kafka.faultOf(error)
        const isOver = signal.aborted ? !producer.opening : fault === 'other' || fault === 'access'
        if (isOver || producer.failed) this.#replace(producer)
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

  /** The next call gets a new one: the client keeps a connection on which no answer comes any more, and one that it could not log in on. */
  #replace(producer: OpenProducer): void {
    if (this.#producer !== producer) return
    this.#producer = undefined
    // What others send by it may come to its end.
    const closing = producer.idle().then(() => producer.close())
    this.#closing.add(closing)
    void closing.then(() => this.#closing.delete(closing))
  }

  async #dispose(): Promise<void> {
    await settledWithin(this.#settings.runtime, answerTimeout, this.#calls.close())
    this.#closed = true
    const producer = this.#producer
    this.#producer = undefined
    await Promise.all([producer?.close(), ...this.#closing])
  }
}

function toTopic(destination: string): string {
  return destination
}

/** Milliseconds after which a connection that is still being made is taken for one that nobody answers on. */
const longestOpening = 10_000

/** A producer, from the moment that it is wanted until the last send by it has ended. */
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

  /** Whether it will never send anything. */
  get failed(): boolean {
    return this.#state === 'failed'
  }

  /** Whether it is worth waiting for: given up by each call that has less time than it takes to connect, it would never be there. */
  get opening(): boolean {
    return this.#state === 'opening' && this.#runtime.monotonic() - this.#begun < longestOpening
  }

  /** What was given up before it could be sent is not sent: its caller may have sent it otherwise by then, and more after it. */
  send(topic: string, records: readonly KafkaRecord[], signal: AbortSignal): Promise<void> {
    const sending = this.#opening.then((producer) => {
      signal.throwIfAborted()
      return producer.send(topic, records)
    })
    this.#sends.add(sending)
    const forget = () => void this.#sends.delete(sending)
    sending.then(forget, forget)
    return sending
  }

  /** Resolves when all that is being sent has ended, or after a while. */
  async idle(): Promise<void> {
    await settledWithin(this.#runtime, answerTimeout, Promise.allSettled(this.#sends))
  }

  /** Waits a while for the client. */
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
