import { answerTimeout } from '@ackord/core/internal'
import type { NatsConnection } from './client.ts'
import type { ConnectionWatch } from './connection-watch.ts'

/** What JetStream answers in place of what it was asked for. */
export class JetStreamError extends Error {
  static {
    this.prototype.name = 'JetStreamError'
  }

  /** JetStream's own, such as 10059 for a stream that is missing. */
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** JetStream's codes that make a difference. */
export const streamNotFound = 10059
export const consumerNotFound = 10014
export const messageTooLarge = 10054
export const wrongStream = 10060

/** What is used of a consumer's state. Durations are nanoseconds. */
export interface ConsumerInfo {
  readonly config: Readonly<Record<string, unknown>> & {
    readonly ack_policy?: string
    readonly ack_wait?: number
    readonly max_ack_pending?: number
    /** Of one request for messages: how many, and how long it may wait. 0 is no limit. */
    readonly max_batch?: number
    readonly max_expires?: number
    readonly max_deliver?: number
    readonly deliver_subject?: string
  }
  readonly delivered: { readonly consumer_seq: number }
  /** Delivered, and without a verdict. */
  readonly num_ack_pending: number
  /** Requests for messages that wait, whoever's. */
  readonly num_waiting: number
}

export interface StreamInfo {
  readonly config: Readonly<Record<string, unknown>>
}

/** The few requests that JetStream is asked here; each is a message and its answer. */
export class JetStreamApi {
  readonly #connection: NatsConnection
  readonly #watch: ConnectionWatch
  readonly #prefix: string

  constructor(connection: NatsConnection, watch: ConnectionWatch, domain: string | undefined) {
    this.#connection = connection
    this.#watch = watch
    this.#prefix = domain === undefined ? '$JS.API' : `$JS.${domain}.API`
  }

  async consumerInfo(stream: string, consumer: string): Promise<ConsumerInfo> {
    return (await this.#ask(`CONSUMER.INFO.${stream}.${consumer}`)) as ConsumerInfo
  }

  async createConsumer(stream: string, consumer: string, config: object): Promise<void> {
    await this.#ask(`CONSUMER.DURABLE.CREATE.${stream}.${consumer}`, { stream_name: stream, config: { ...config, durable_name: consumer } })
  }

  async streamInfo(stream: string): Promise<StreamInfo> {
    return (await this.#ask(`STREAM.INFO.${stream}`)) as StreamInfo
  }

  async createStream(stream: string, config: object): Promise<void> {
    await this.#ask(`STREAM.CREATE.${stream}`, { ...config, name: stream })
  }

  /** Asks for messages, which come to `reply`. Durations are milliseconds. */
  pull(
    stream: string,
    consumer: string,
    reply: string,
    request: { readonly batch: number; readonly expires: number; readonly heartbeat: number },
  ): void {
    const { batch, expires, heartbeat } = request
    const body = { batch, expires: expires * nanoseconds, idle_heartbeat: heartbeat * nanoseconds }
    this.#connection.publish(`${this.#prefix}.CONSUMER.MSG.NEXT.${stream}.${consumer}`, utf8.encode(JSON.stringify(body)), { reply })
  }

  async #ask(subject: string, body?: object): Promise<unknown> {
    const data = body === undefined ? new Uint8Array() : utf8.encode(JSON.stringify(body))
    const asking = this.#connection.request(`${this.#prefix}.${subject}`, data, { timeout: answerTimeout })
    // The client leaves a request to its time-out when it loses the connection, although no answer can come any more.
    let forget: () => void = () => {}
    const lost = new Promise<never>((_, reject) => {
      forget = this.#watch.onChange(() => reject(new Error('The connection to NATS was lost before JetStream had answered.')))
    })
    asking.catch(() => {})
    try {
      return checkAnswer((await Promise.race([asking, lost])).data)
    } finally {
      forget()
    }
  }
}

/** The answer, or what it says went wrong. */
export function checkAnswer(data: Uint8Array): Readonly<Record<string, unknown>> {
  const answer = parse(data)
  if (typeof answer !== 'object' || answer === null) throw new TypeError('JetStream answered with something else than an object.')
  if (!('error' in answer)) return answer as Record<string, unknown>
  // JetStream's own format.
  const {
    code = 0,
    err_code = code,
    description = 'no description',
  } = answer.error as { code?: number; err_code?: number; description?: string }
  throw new JetStreamError(err_code, description)
}

function parse(data: Uint8Array): unknown {
  try {
    return JSON.parse(text.decode(data))
  } catch {
    // The error would quote the answer, and whoever answers in place of a stream may repeat the message.
    throw new TypeError('JetStream answered with something else than JSON.')
  }
}

/** Nanoseconds in a millisecond: the durations of JetStream. */
export const nanoseconds = 1_000_000

const utf8 = new TextEncoder()
const text = new TextDecoder()
