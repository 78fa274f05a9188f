import {
  type Closable,
  InvalidOptionError,
  type Publisher,
  type PublishFailure,
  type PublishResult,
  type RawMessage,
  type Runtime,
  systemRuntime,
} from '@ackord/core'
import { attributeText, createPublisher, type Outgoing, type PublisherDriver, percentEncode, type SendOptions } from '@ackord/core/broker'
import { checkChoice, checkDuration, checkFunction, inChunks, linkedController, rejectUnknownOptions } from '@ackord/core/internal'
import { headers as clientHeaders } from '@nats-io/transport-node'
import { isNotAllowed, type NatsConnection, ServerAddress } from '../client.ts'
import { ConnectionWatch } from '../connection-watch.ts'
import { checkSubject, checkToken } from '../headers.ts'
import { checkAnswer, JetStreamError } from '../jetstream-api.ts'
import { connectionLost, notConnected, requestFailed, tooLarge, unknownAnswer } from './publish-failures.ts'
import { type WrittenMessage, writeMessage, writtenSize } from './write-message.ts'

export interface NatsPublisherOptions {
  /** The subject for a message to this destination. Default: the destination itself. */
  readonly subject?: ((destination: string, message: RawMessage) => string) | undefined
  /** Whether attributes are headers, or one JSON document with the data. Default: 'binary'. */
  readonly mode?: 'binary' | 'structured' | undefined
  /** The stream that must store the messages; if another stream has the subject, they fail. Default: the stream that has the subject. */
  readonly expectedStream?: string | undefined
  /**
   * The fault that is reported when no stream has the subject. `destination`: a relay pauses the destination and counts no attempts. `record`: it tries the message
   * again and parks it in the end, and the others go on; but an unavailable JetStream looks the same. Default: 'destination'.
   */
  readonly unroutable?: 'destination' | 'record' | undefined
  /**
   * Whether messages have a `Nats-Msg-Id`, by which a stream drops what it was sent before. `false` for messages that were in the stream recently and must
   * be stored again, such as replayed dead letters. Default: true.
   */
  readonly deduplicate?: boolean | undefined
  /** Milliseconds that the confirmation of a message may take, and that `publish()` waits for a connection that is being restored. Default: 5,000. */
  readonly timeout?: number | undefined
  readonly runtime?: Runtime | undefined
}

/**
 * Publishes to JetStream: a message that is `ok` is in a stream. The messages of a call are sent in their order, without waiting for each other, and confirmed one by one. Open the
 * connection with `connect({ maxReconnectAttempts: -1 })` of `@nats-io/transport-node`.
 *
 * Unless `deduplicate` is false, each message with an id has a `Nats-Msg-Id` made of its subject, source and id: a message that is published again because its confirmation was lost is dropped
 * by the stream within its `duplicate_window`, two minutes by default, and counts as sent.
 */
export function natsPublisher(connection: NatsConnection, options: NatsPublisherOptions = {}): Publisher & Closable {
  const {
    subject = (destination) => destination,
    mode = 'binary',
    expectedStream,
    unroutable = 'destination',
    deduplicate = true,
    timeout = 5000,
    runtime = systemRuntime,
    ...unknown
  } = options
  rejectUnknownOptions('A NATS publisher', unknown)
  checkFunction('subject', subject)
  checkChoice('mode', mode, ['binary', 'structured'])
  if (expectedStream !== undefined) checkToken('expectedStream', expectedStream)
  checkChoice('unroutable', unroutable, ['destination', 'record'])
  if (typeof deduplicate !== 'boolean') throw new InvalidOptionError('deduplicate', 'must be true or false.')
  checkDuration('timeout', timeout, { min: 1 })
  return createPublisher(new NatsPublisherDriver(connection, { subject, mode, expectedStream, unroutable, deduplicate, timeout, runtime }))
}

interface PublisherSettings {
  readonly subject: (destination: string, message: RawMessage) => string
  readonly mode: 'binary' | 'structured'
  readonly expectedStream: string | undefined
  readonly unroutable: 'destination' | 'record'
  readonly deduplicate: boolean
  readonly timeout: number
  readonly runtime: Runtime
}

/** A message in the format of NATS. */
interface SubjectMessage {
  readonly subject: string
  readonly written: WrittenMessage
  readonly size: number
}

// The limits of one chunk in flight: the client keeps all of it in memory.
const chunkLimits = { count: 1000, size: 8 * 1024 * 1024 }
const ok: PublishResult = { ok: true }

class NatsPublisherDriver implements PublisherDriver<SubjectMessage> {
  readonly broker = 'NATS'
  readonly system = 'nats'
  readonly routeName = 'subject'
  // Every call ends by its time limits.
  readonly closeTimeout = Number.POSITIVE_INFINITY
  readonly #connection: NatsConnection
  readonly #address: ServerAddress
  readonly #watch: ConnectionWatch
  readonly #settings: PublisherSettings

  constructor(connection: NatsConnection, settings: PublisherSettings) {
    this.#connection = connection
    this.#address = new ServerAddress(connection)
    this.#watch = ConnectionWatch.of(connection)
    this.#settings = settings
  }

  get serverAddress(): string | undefined {
    return this.#address.serverAddress
  }

  get serverPort(): number | undefined {
    return this.#address.serverPort
  }

  route(destination: string, message: RawMessage): string {
    return checkSubject('subject', this.#settings.subject(destination, message))
  }

  write(message: RawMessage, subject: string): SubjectMessage {
    const { mode, expectedStream, deduplicate } = this.#settings
    const { headers, body } = writeMessage(message, mode)
    if (deduplicate && message.id !== undefined) headers['Nats-Msg-Id'] = messageId(subject, message)
    if (expectedStream !== undefined) headers['Nats-Expected-Stream'] = expectedStream
    const written = { headers, body }
    return { subject, written, size: writtenSize(written) }
  }

  async send(messages: readonly Outgoing<SubjectMessage>[], { signal }: SendOptions): Promise<void> {
    for (const chunk of inChunks(messages, chunkLimits, ({ item }) => item.size)) {
      if (!this.#watch.isUp) await this.#connected(signal)
      if (signal.aborted) return
      if (this.#watch.isUp) await this.#sendTogether(chunk)
      else for (const message of chunk) message.settle(notConnected(this.#watch.over))
    }
  }

  async #connected(signal: AbortSignal): Promise<void> {
    const { runtime, timeout } = this.#settings
    using waiting = linkedController(signal)
    const timer = runtime.setTimeout(() => waiting.abort(undefined), timeout)
    await this.#watch.settled(waiting.signal)
    timer.cancel()
  }

  async #sendTogether(messages: readonly Outgoing<SubjectMessage>[]): Promise<void> {
    // When the client loses the connection, its requests wait until they time out.
    const unwatch = this.#watch.onChange(() => {
      for (const message of messages) message.settle(connectionLost(message.item.subject))
      lost()
    })
    let lost: () => void = () => {}
    const gone = new Promise<void>((resolve) => {
      lost = resolve
    })
    const denied = (subject: string, failure: PublishFailure) => {
      // NATS reports a missing permission once, not for each message.
      for (const other of messages) if (other.item.subject === subject) other.settle(failure)
    }
    await Promise.race([gone, Promise.all(messages.map((message) => this.#send(message, denied)))])
    unwatch()
  }

  /** Never rejects. */
  async #send(outgoing: Outgoing<SubjectMessage>, denied: (subject: string, failure: PublishFailure) => void): Promise<void> {
    const { subject, written, size } = outgoing.item
    const { timeout, unroutable } = this.#settings
    const limit = this.#connection.info?.max_payload
    if (limit !== undefined && size > limit) {
      outgoing.settle(tooLarge(subject, `It has ${size} bytes with its headers, and the server's max_payload is ${limit}.`))
      return
    }
    let answer: Uint8Array
    try {
      const headers = clientHeaders()
      for (const name in written.headers) headers.append(name, written.headers[name] ?? '')
      answer = (await this.#connection.request(subject, written.body, { timeout, headers })).data
    } catch (error) {
      const failure = requestFailed(subject, error, unroutable)
      outgoing.settle(failure)
      if (isNotAllowed(error)) denied(subject, failure)
      return
    }
    outgoing.settle(resultOf(subject, answer, unroutable))
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

/**
 * The subject is part of it: a stream may hold the dead letters of its own messages, which have the same ids. So is the time of a dead letter: a message that was replayed
 * may be rejected again within the duplicate window, and its second letter must not be dropped.
 */
function messageId(subject: string, { source = '', id = '', attributes }: RawMessage): string {
  const { deadlettertime: rejectedAt } = attributes
  const parts = rejectedAt === undefined ? [subject, source, id] : [subject, source, id, attributeText(rejectedAt)]
  return parts.map((part) => percentEncode(part.toWellFormed())).join(' ')
}
