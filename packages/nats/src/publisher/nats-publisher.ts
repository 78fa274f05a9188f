import { type Publisher, type PublishFailure, type PublishResult, type RawMessage, type Runtime, systemRuntime } from '@ackord/core'
import { checkChoice, checkDuration, checkFunction, checkNoMore, inChunks, linkedController, PublishCalls } from '@ackord/core/internal'
import { headers as clientHeaders } from '@nats-io/transport-node'
import { isNotAllowed, type NatsConnection } from '../client.ts'
import { ConnectionWatch } from '../connection-watch.ts'
import { checkSubject, checkToken, encodeHeader } from '../headers.ts'
import { checkAnswer, JetStreamError } from '../jetstream-api.ts'
import {
  aborted,
  connectionLost,
  notConnected,
  requestFailed,
  tooLarge,
  unknownAnswer,
  unrouted,
  unwritable,
  wrongData,
} from './publish-failures.ts'
import { type WrittenMessage, writeMessage, writtenSize } from './write-message.ts'

export interface NatsPublisherOptions {
  /** The subject for a message to this destination. Default: the destination itself. */
  readonly subject?: ((destination: string, message: RawMessage) => string) | undefined
  /** Whether attributes are headers, or one JSON document with the data. Default: 'binary'. */
  readonly mode?: 'binary' | 'structured' | undefined
  /** The stream that has to take the messages; if another one has the subject, they fail. Default: whichever has the subject. */
  readonly expectedStream?: string | undefined
  /**
   * Whose fault a subject is that no stream takes. `destination`: a relay pauses the destination and loses no attempts. `record`: it tries the message
   * again and parks it in the end, and the others go on; but a JetStream that is not available looks the same. Default: 'destination'.
   */
  readonly unroutable?: 'destination' | 'record' | undefined
  /** Milliseconds that a message may take to be confirmed, and that `publish()` waits for a connection that is being made again. Default: 5,000. */
  readonly timeout?: number | undefined
  readonly runtime?: Runtime | undefined
}

/**
 * Publishes to JetStream: what is `ok` is in a stream. The messages of a call are sent at once, in their order, and confirmed one by one. The connection is
 * what `connect()` of `@nats-io/transport-node` resolves to, best with `maxReconnectAttempts: -1`.
 *
 * Each message with an id has a `Nats-Msg-Id` made of its subject, source and id: one that is published again, because its confirmation was lost, is dropped
 * by the stream within its `duplicate_window`, two minutes by default, and counts as sent.
 */
export function natsPublisher(connection: NatsConnection, options: NatsPublisherOptions = {}): Publisher & AsyncDisposable {
  const {
    subject = (destination) => destination,
    mode = 'binary',
    expectedStream,
    unroutable = 'destination',
    timeout = 5000,
    runtime = systemRuntime,
    ...unknown
  } = options
  checkNoMore('A NATS publisher', unknown)
  checkFunction('subject', subject)
  checkChoice('mode', mode, ['binary', 'structured'])
  if (expectedStream !== undefined) checkToken('expectedStream', expectedStream)
  checkChoice('unroutable', unroutable, ['destination', 'record'])
  checkDuration('timeout', timeout, { min: 1 })
  return new NatsPublisher(connection, { subject, mode, expectedStream, unroutable, timeout, runtime })
}

interface PublisherSettings {
  readonly subject: (destination: string, message: RawMessage) => string
  readonly mode: 'binary' | 'structured'
  readonly expectedStream: string | undefined
  readonly unroutable: 'destination' | 'record'
  readonly timeout: number
  readonly runtime: Runtime
}

interface Outgoing {
  readonly subject: string
  readonly written: WrittenMessage
  readonly size: number
  /** The first result counts. */
  readonly settle: (result: PublishResult) => void
}

// What is on its way at once: the client keeps all of it in memory.
const most = { count: 1000, size: 8 * 1024 * 1024 }
const ok: PublishResult = { ok: true }

class NatsPublisher implements Publisher, AsyncDisposable {
  readonly #connection: NatsConnection
  readonly #watch: ConnectionWatch
  readonly #settings: PublisherSettings
  readonly #calls = new PublishCalls('The NATS publisher')

  constructor(connection: NatsConnection, settings: PublisherSettings) {
    this.#connection = connection
    this.#watch = ConnectionWatch.of(connection)
    this.#settings = settings
  }

  async publish(
    destination: string,
    messages: readonly RawMessage[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly PublishResult[]> {
    return await this.#calls.run(destination, options.signal, () => this.#publish(destination, messages, options.signal))
  }

  /** Waits for what is being published; the connection stays open. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#calls.close()
  }

  /** Never rejects. */
  async #publish(destination: string, messages: readonly RawMessage[], signal: AbortSignal): Promise<readonly PublishResult[]> {
    const sent: Outgoing[] = []
    const results = messages.map((message) => {
      const prepared = this.#prepare(destination, message)
      if ('ok' in prepared) return prepared
      return new Promise<PublishResult>((settle) => sent.push({ ...prepared, settle }))
    })
    const onAbort = () => {
      for (const { settle } of sent) settle(aborted(signal.reason))
    }
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      void this.#sendAll(sent, signal)
      return await Promise.all(results)
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  #prepare(destination: string, message: RawMessage): Omit<Outgoing, 'settle'> | PublishFailure {
    const { mode, expectedStream } = this.#settings
    if (!(message.data instanceof Uint8Array)) return wrongData(destination, message.data)
    let subject: string
    try {
      subject = checkSubject('subject', this.#settings.subject(destination, message))
    } catch (cause) {
      return unrouted(destination, cause)
    }
    try {
      const { headers, body } = writeMessage(message, mode)
      const own: [string, string][] = []
      if (message.id !== undefined) own.push(['Nats-Msg-Id', messageId(subject, message)])
      if (expectedStream !== undefined) own.push(['Nats-Expected-Stream', expectedStream])
      const written = { headers: [...headers, ...own], body }
      return { subject, written, size: writtenSize(written) }
    } catch (cause) {
      return unwritable(destination, cause)
    }
  }

  /** Never rejects. */
  async #sendAll(messages: readonly Outgoing[], signal: AbortSignal): Promise<void> {
    for (const chunk of inChunks(messages, most)) {
      if (!this.#watch.isUp) await this.#connected(signal)
      if (signal.aborted) return
      if (this.#watch.isUp) await this.#sendTogether(chunk)
      else for (const { settle } of chunk) settle(notConnected(this.#watch.over))
    }
  }

  async #connected(signal: AbortSignal): Promise<void> {
    const { runtime, timeout } = this.#settings
    using waiting = linkedController(signal)
    const timer = runtime.setTimeout(() => waiting.abort(undefined), timeout)
    await this.#watch.settled(waiting.signal)
    timer.cancel()
  }

  async #sendTogether(messages: readonly Outgoing[]): Promise<void> {
    // The client leaves requests to their time-out when it loses the connection.
    const forget = this.#watch.onChange(() => {
      for (const { subject, settle } of messages) settle(connectionLost(subject))
      lost()
    })
    let lost: () => void = () => {}
    const gone = new Promise<void>((resolve) => {
      lost = resolve
    })
    const refused = (subject: string, failure: PublishFailure) => {
      // NATS tells of one of them only.
      for (const other of messages) if (other.subject === subject) other.settle(failure)
    }
    await Promise.race([gone, Promise.all(messages.map((message) => this.#send(message, refused)))])
    forget()
  }

  /** Never rejects. */
  async #send(outgoing: Outgoing, refused: (subject: string, failure: PublishFailure) => void): Promise<void> {
    const { subject, written, size, settle } = outgoing
    const { timeout, unroutable } = this.#settings
    const limit = this.#connection.info?.max_payload
    if (limit !== undefined && size > limit) {
      settle(tooLarge(subject, `It has ${size} bytes with its headers, and the server's max_payload is ${limit}.`))
      return
    }
    let answer: Uint8Array
    try {
      const headers = clientHeaders()
      for (const [name, value] of written.headers) headers.append(name, value)
      answer = (await this.#connection.request(subject, written.body, { timeout, headers })).data
    } catch (error) {
      const failure = requestFailed(subject, error, unroutable)
      settle(failure)
      if (isNotAllowed(error)) refused(subject, failure)
      return
    }
    settle(resultOf(subject, answer, unroutable))
  }
}

function resultOf(subject: string, answer: Uint8Array, unroutable: 'destination' | 'record'): PublishResult {
  try {
    const { stream } = checkAnswer(answer)
    return typeof stream === 'string' && stream !== '' ? ok : unknownAnswer(subject, undefined)
  } catch (error) {
    return error instanceof JetStreamError ? requestFailed(subject, error, unroutable) : unknownAnswer(subject, error)
  }
}

/** The subject is part of it: a stream may hold the dead letters of its own messages, which have their ids. */
function messageId(subject: string, { source = '', id = '' }: RawMessage): string {
  return [subject, source, id].map(encodeHeader).join(' ')
}
