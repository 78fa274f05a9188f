import { answerTimeout } from '@ackord/core/internal'
import type { NatsConnection } from './client.ts'
import type { ConnectionWatch } from './connection-watch.ts'

/** An error response of JetStream. */
export class JetStreamError extends Error {
  static {
    this.prototype.name = 'JetStreamError'
  }

  /** JetStream's error code, such as 10059 for a missing stream. */
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** The error codes of JetStream that are handled. */
export const streamNotFound = 10059
export const consumerNotFound = 10014
export const messageTooLarge = 10054
export const wrongStream = 10060

/** The part of a consumer's state that is used. Durations are nanoseconds. */
export interface ConsumerInfo {
  readonly config: Readonly<Record<string, unknown>> & {
    readonly ack_policy?: string
    readonly ack_wait?: number
    readonly max_ack_pending?: number
    /** Limits of one pull request: how many messages, and how long it may wait. 0 is no limit. */
    readonly max_batch?: number
    readonly max_expires?: number
    readonly max_deliver?: number
    readonly deliver_subject?: string
  }
  readonly delivered: { readonly consumer_seq: number }
  /** Messages that are delivered and not settled. */
  readonly num_ack_pending: number
  /** Pull requests that wait, of all clients. */
  readonly num_waiting: number
}

export interface StreamInfo {
  readonly config: Readonly<Record<string, unknown>>
}

/** The requests of the JetStream API that are used; each is a message and its answer. */
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
    return (await this.#request(`CONSUMER.INFO.${stream}.${consumer}`)) as ConsumerInfo
  }

  async createConsumer(stream: string, consumer: string, config: object): Promise<void> {
    await this.#request(`CONSUMER.DURABLE.CREATE.${stream}.${consumer}`, {
      stream_name: stream,
      config: { ...config, durable_name: consumer },
    })
  }

  async streamInfo(stream: string): Promise<StreamInfo> {
    return (await this.#request(`STREAM.INFO.${stream}`)) as StreamInfo
  }

  async createStream(stream: string, config: object): Promise<void> {
    await this.#request(`STREAM.CREATE.${stream}`, { ...config, name: stream })
  }

  /** Requests messages, which are delivered to `reply`. Durations are milliseconds. */
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

  async #request(subject: string, body?: object): Promise<unknown> {
    const data = body === undefined ? new Uint8Array() : utf8.encode(JSON.stringify(body))
    const requesting = this.#connection.request(`${this.#prefix}.${subject}`, data, { timeout: answerTimeout })
    // When the client loses the connection, a request waits until it times out, although no answer can come any more.
    let unwatch: () => void = () => {}
    const lost = new Promise<never>((_, reject) => {
      unwatch = this.#watch.onChange(() => reject(new Error('The connection to NATS was lost before JetStream had answered.')))
    })
    requesting.catch(() => {})
    try {
      return checkAnswer((await Promise.race([requesting, lost])).data)
    } finally {
      unwatch()
    }
  }
}

/** Returns the answer. Throws the error that it contains. */
export function checkAnswer(data: Uint8Array): Readonly<Record<string, unknown>> {
  const answer = parse(data)
  if (typeof answer !== 'object' || answer === null) throw new TypeError('The answer of JetStream is not an object.')
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
    // The original error would quote the answer, and a subscriber that answers instead of a stream may repeat the message.
    throw new TypeError('The answer of JetStream is not JSON.')
  }
}

/** Nanoseconds in a millisecond: the durations of JetStream. */
export const nanoseconds = 1_000_000

const utf8 = new TextEncoder()
const text = new TextDecoder()
