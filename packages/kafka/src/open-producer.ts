import type { Runtime } from '@ackord/core'
import { answerTimeout, settledWithin } from '@ackord/core/internal'
import type { KafkaPort, KafkaProducer, KafkaRecord } from './port.ts'

/** Milliseconds after which a connection that is still being made is taken for one that nobody answers on. */
const longestOpening = 10_000

/** A producer, from the moment that it is wanted until the last send by it has ended. */
export class OpenProducer {
  readonly #opening: Promise<KafkaProducer>
  readonly #sends = new Set<Promise<void>>()
  readonly #runtime: Runtime
  readonly #begun: number
  #state: 'opening' | 'open' | 'failed' = 'opening'

  constructor(kafka: KafkaPort, runtime: Runtime) {
    this.#runtime = runtime
    this.#begun = runtime.now()
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
    return this.#state === 'opening' && this.#runtime.now() - this.#begun < longestOpening
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
