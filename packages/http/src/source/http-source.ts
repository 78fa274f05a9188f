import {
  type Attributes,
  type Closable,
  InvalidOptionError,
  type Logger,
  outside,
  type RawMessage,
  type Runtime,
  type SharedPorts,
  type Source,
  systemRuntime,
} from '@ackord/core'
import { createReceiver, type Receiver, type ReceiverOptions } from '@ackord/core/broker'
import { checkChoice, checkCount, checkDuration, checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import { type ContentMode, contentMode } from '../cloudevents/content-mode.ts'
import { accepted, answer, unavailable } from './answers.ts'
import { DeliveryCounts, type HeldMessage, HttpIteration, type IterationOwner } from './http-iteration.ts'
import { AcceptedMessages, OpenRequest } from './open-request.ts'
import { PendingBytes } from './pending-bytes.ts'
import { type EventContent, type HttpRequest, memoryOf, readBody, readEvents, readForeign } from './read-request.ts'
import { checkGenuine, type RequestVerifier, requestVerifier } from './verify-request.ts'

export interface HttpSourceOptions extends ReceiverOptions {
  /**
   * How requests are authenticated: the secret of Standard Webhooks (`whsec_…`), or several while one is being replaced; or a function that
   * returns whether a request is genuine, within `bodyTimeout`. Other requests are answered with 401. Default: every request is accepted.
   */
  readonly verify?: string | readonly string[] | ((request: HttpRequest) => boolean | Promise<boolean>) | undefined
  /**
   * The largest difference in milliseconds between the time of a signed request and the local time. Within it an intercepted request can be sent again, which an
   * inbox recognises as a duplicate; with `unsignedAttributes` an attacker could change its type and source, and it would not be recognised. Default: 300,000.
   */
  readonly tolerance?: number | undefined
  /**
   * With a secret: accepts events in binary mode too, although only their id and their data are signed, and neither type nor source. Set it only
   * if requests cannot be intercepted. Default: false, and they are answered with 401.
   */
  readonly unsignedAttributes?: boolean | undefined
  /**
   * Returns the attributes of a request, for senders that do not send CloudEvents. If it throws, the answer is 400.
   * Default: CloudEvents in binary, structured or batch mode; other requests are answered with 415.
   */
  readonly attributes?: ((request: HttpRequest) => Attributes) | undefined
  /**
   * When a request is answered. `settled`: when its messages are handled, so that the sender keeps them until then. `accepted`: at once, with 202; then a nacked
   * message is delivered again from memory, and unhandled messages are lost with the process. Default: 'settled'.
   */
  readonly respond?: 'settled' | 'accepted' | undefined
  /**
   * The most requests that are processed at the same time; more are answered with 503. A router needs at least its `concurrency`. With `respond: 'accepted'` unhandled messages
   * count too. A request whose body is still arriving does not count; past ten times as many of those, the oldest is answered with 503. Default: 100.
   */
  readonly maxRequests?: number | undefined
  /**
   * The most bytes of memory for all requests, bodies that are still arriving included; about 800 bytes are added for each event. A request that does not fit
   * is answered with 503, and bodies that are still arriving make room for others. A batch that would not fit alone is answered with 413. At least
   * `maxBodySize`. Default: 67,108,864, or four times `maxBodySize` if that is more.
   */
  readonly maxPendingBytes?: number | undefined
  /** The most bytes of an event's id, as UTF-8; longer ones are answered with 400. Default: 1,024. */
  readonly maxIdSize?: number | undefined
  /** The most bytes of all attributes of an event, names and values, as UTF-8; more are answered with 400. Default: 65,536. */
  readonly maxAttributesSize?: number | undefined
  /** The most bytes of a body; larger ones are answered with 413. Default: 1,048,576. */
  readonly maxBodySize?: number | undefined
  /** Milliseconds that a body may take to arrive; then 408. A function `verify` has the same time limit; then 503. Default: 10,000. */
  readonly bodyTimeout?: number | undefined
  /**
   * Milliseconds that a request waits for its messages to be settled; then 504, although they may still be handled. Shorter than the time limit of the sender.
   * Default: 30,000.
   */
  readonly settleTimeout?: number | undefined
}

/** A source that receives messages by requests. */
export interface HttpSource extends Source, Closable {
  /** Answers a request when its messages are settled. Never rejects. It may be passed on without the source. */
  readonly handler: (request: Request) => Promise<Response>
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Receives CloudEvents by HTTP. Mount `handler` in a server, with `toNodeHandler`, `toExpressHandler`, `toFastifyPlugin`, `toHonoHandler` or as it is; while
 * there is no iteration of `messages()`, requests are answered with 503. Several iterations share the requests.
 */
export function httpSource(options: HttpSourceOptions = {}): HttpSource {
  const {
    verify,
    tolerance = 300_000,
    unsignedAttributes = false,
    attributes,
    respond = 'settled',
    maxRequests = 100,
    maxBodySize = 1_048_576,
    maxPendingBytes = Math.max(67_108_864, 4 * maxBodySize),
    maxIdSize = 1024,
    maxAttributesSize = 65_536,
    bodyTimeout = 10_000,
    settleTimeout = 30_000,
    deadLetter,
    deadLetterTimeout,
    onUndeliverable,
    runtime = systemRuntime,
    logger,
    ...unknown
  } = options
  rejectUnknownOptions('An HTTP source', unknown)
  checkDuration('tolerance', tolerance)
  if (attributes !== undefined) checkFunction('attributes', attributes)
  checkChoice('respond', respond, ['settled', 'accepted'])
  checkCount('maxRequests', maxRequests)
  checkCount('maxBodySize', maxBodySize)
  checkCount('maxPendingBytes', maxPendingBytes)
  if (maxPendingBytes < maxBodySize)
    throw new InvalidOptionError(
      'maxPendingBytes',
      `must be at least maxBodySize, or the largest bodies never fit; it is ${maxPendingBytes}, and maxBodySize is ${maxBodySize}.`,
    )
  checkCount('maxIdSize', maxIdSize)
  checkCount('maxAttributesSize', maxAttributesSize)
  checkDuration('bodyTimeout', bodyTimeout, { min: 1 })
  checkDuration('settleTimeout', settleTimeout, { min: 1 })
  if (verify === undefined && Object.hasOwn(options, 'verify')) {
    throw new InvalidOptionError(
      'verify',
      'is undefined; a variable of the environment may be missing. Omit the option to accept unsigned requests.',
    )
  }
  if (verify === undefined && options.tolerance !== undefined) throw new InvalidOptionError('tolerance', "has no effect without 'verify'.")
  if (typeof unsignedAttributes !== 'boolean') throw new InvalidOptionError('unsignedAttributes', 'must be true or false.')
  if (unsignedAttributes && (verify === undefined || typeof verify === 'function' || attributes !== undefined))
    throw new InvalidOptionError('unsignedAttributes', "has an effect only with a secret in 'verify', and without 'attributes'.")
  const receive = createReceiver({ deadLetter, deadLetterTimeout, onUndeliverable, runtime, logger })
  const unsigned = attributes === undefined ? unsignedAttributes : 'foreign'
  const verifier = verify === undefined ? undefined : requestVerifier(verify, { tolerance, unsignedAttributes: unsigned, runtime })
  return new RequestSource({
    verifier,
    attributes,
    respond,
    maxRequests,
    maxBodySize,
    maxPendingBytes,
    maxIdSize,
    maxAttributesSize,
    readsTrace: unsignedAttributes || typeof verify === 'function' || verify === undefined,
    bodyTimeout,
    settleTimeout,
    runtime,
    logger: receive.logger,
    receive,
  })
}

// An arriving body takes a connection and a few objects, so there may be more of them than requests.
const arrivingPerRequest = 10

interface SourceSettings {
  readonly verifier: RequestVerifier | undefined
  readonly attributes: ((request: HttpRequest) => Attributes) | undefined
  readonly respond: 'settled' | 'accepted'
  readonly maxRequests: number
  readonly maxBodySize: number
  readonly maxPendingBytes: number
  readonly maxIdSize: number
  readonly maxAttributesSize: number
  /** False if only the body is signed: then all attributes are from there. */
  readonly readsTrace: boolean
  readonly bodyTimeout: number
  readonly settleTimeout: number
  readonly runtime: Runtime
  readonly logger: Logger
  readonly receive: Receiver
}

/** The memory that is reserved for a request. */
interface Reservation {
  reserved: number
}

interface ReceivedRequest {
  readonly mode: ContentMode
  readonly body: Uint8Array
  readonly reservation: Reservation
}

class RequestSource implements HttpSource, IterationOwner {
  readonly system = 'http'
  readonly counts: DeliveryCounts = new DeliveryCounts()
  readonly receive: Receiver
  readonly #settings: SourceSettings
  readonly #iterations = new Set<HttpIteration>()
  readonly #open = new Set<OpenRequest>()
  readonly #accepted: AcceptedMessages
  readonly #pending: PendingBytes
  #requests = 0
  #disposing: Promise<void> | undefined

  constructor(settings: SourceSettings) {
    this.#settings = settings
    this.receive = settings.receive
    this.#pending = new PendingBytes(settings.maxPendingBytes, arrivingPerRequest * settings.maxRequests)
    this.#accepted = new AcceptedMessages(settings.runtime, {
      deliver: (messages) => this.#deliver(messages),
      free: (bytes) => this.#pending.release(bytes),
    })
  }

  get disposed(): boolean {
    return this.#disposing !== undefined
  }

  readonly handler = async (request: Request): Promise<Response> => {
    try {
      // The context of a server, with its spans and stores, must not leak into the handlers of messages.
      return await outside(() => this.#limited(request))
    } catch (error) {
      this.#settings.logger.error({ err: error }, 'A request could not be processed.')
      return answer(500, 'The request could not be processed.')
    }
  }

  messages(options: { readonly signal: AbortSignal }): AsyncIterableIterator<RawMessage> {
    return new HttpIteration(this, options.signal).messages
  }

  inheritPorts(ports: SharedPorts): void {
    this.receive.inheritPorts(ports)
  }

  close(): Promise<void> {
    this.#disposing ??= this.#dispose()
    return this.#disposing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  started(iteration: HttpIteration): void {
    this.#iterations.add(iteration)
    this.#accepted.resume()
  }

  ended(iteration: HttpIteration): void {
    this.#iterations.delete(iteration)
  }

  async #limited(request: Request): Promise<Response> {
    if (request.method !== 'POST') return answer(405, 'Send events by POST.', { allow: 'POST' })
    if (this.#iterations.size === 0) return unavailable('The receiver is stopping, or has not started.')
    if (this.#isFull()) return tooMuch()
    const mode = this.#modeOf(request.headers)
    if (mode instanceof Response) return mode
    const received = await readBody(request, this.#settings, this.#pending)
    if (received instanceof Response) return received
    const reservation: Reservation = { reserved: received.reserved }
    // Other requests may have come meanwhile: an arriving body does not count.
    if (this.#isFull()) {
      this.#pending.release(reservation.reserved)
      return tooMuch()
    }
    this.#requests += 1
    let open: OpenRequest | Response | undefined
    try {
      open = await this.#begin(request, { mode, body: received.body, reservation })
    } finally {
      // Not when it is answered: the messages of a disconnected client are still handled.
      if (open instanceof OpenRequest) void open.over.then(() => this.#leave(reservation))
      else this.#leave(reservation)
    }
    return open instanceof OpenRequest ? await open.answered : open
  }

  #isFull(): boolean {
    return this.#requests + this.#accepted.size >= this.#settings.maxRequests
  }

  #leave(reservation: Reservation): void {
    this.#requests -= 1
    this.#pending.release(reservation.reserved)
  }

  /** How the events are written, or the answer to a request that has none. */
  #modeOf(headers: Headers): ContentMode | Response {
    const encoding = headers.get('content-encoding') ?? 'identity'
    if (encoding.toLowerCase() !== 'identity') return answer(415, 'Compressed bodies are not accepted.', { 'accept-encoding': 'identity' })
    const mode = contentMode(headers.get('content-type'))
    const isEvent = mode !== 'unknown' && (mode !== 'binary' || hasEvent(headers))
    return this.#settings.attributes === undefined && !isEvent ? answer(415, noEvent) : mode
  }

  /** The request whose messages are being handled, or its answer if there are none. */
  async #begin(request: Request, received: ReceivedRequest): Promise<OpenRequest | Response> {
    const contents = await this.#read(request, received)
    if (contents instanceof Response) return contents
    const refusal = this.#reserveFor(contents, received.reservation)
    return refusal ?? this.#take(contents, request.signal, received.reservation)
  }

  /** The events of a request, or the answer to a refused one. */
  async #read(request: Request, { mode, body }: ReceivedRequest): Promise<readonly EventContent[] | Response> {
    const { verifier, attributes, bodyTimeout, runtime, logger } = this.#settings
    const { url, headers, signal: client } = request
    const read: HttpRequest = { url, headers, body }
    const refusal = verifier && (await checkGenuine(verifier, read, { timeout: bodyTimeout, client, runtime, logger }))
    if (refusal !== undefined) return refusal
    try {
      if (attributes !== undefined) return [readForeign(read, attributes, this.#settings)]
      return readEvents(read, mode === 'unknown' ? 'binary' : mode, this.#settings)
    } catch (error) {
      logger.warn({ err: error }, 'A request was refused: it cannot be read.')
      return answer(400, attributes === undefined && error instanceof Error ? error.message : 'The request cannot be read.')
    }
  }

  /** Replaces the reservation for the body by one for the events. */
  #reserveFor(contents: readonly EventContent[], reservation: Reservation): Response | undefined {
    const bytes = memoryOf(contents)
    if (bytes > this.#settings.maxPendingBytes) return answer(413, 'The events of the request take too much memory. Send smaller batches.')
    this.#pending.release(reservation.reserved)
    reservation.reserved = 0
    if (!this.#pending.reserve(bytes)) return tooMuch()
    reservation.reserved = bytes
    return undefined
  }

  #take(contents: readonly EventContent[], client: AbortSignal, reservation: Reservation): OpenRequest | Response {
    const { respond, runtime, settleTimeout } = this.#settings
    // The last iteration may have ended while the request was read.
    if (this.#iterations.size === 0) return unavailable('The receiver is stopping.')
    if (respond === 'accepted') {
      // From now on each message has its own reservation, until it is settled.
      reservation.reserved = 0
      this.#accepted.accept(contents)
      return accepted()
    }
    const open = new OpenRequest(contents, { settleTimeout, runtime, client })
    this.#open.add(open)
    void open.over.then(() => this.#open.delete(open))
    this.#deliver(open.messages)
    return open
  }

  /** Passes messages to the iteration with the fewest unsettled messages. `false` if there is none. */
  #deliver(messages: readonly HeldMessage[]): boolean {
    let least: HttpIteration | undefined
    for (const iteration of this.#iterations)
      if (!iteration.isEnding && (least === undefined || iteration.load < least.load)) least = iteration
    least?.deliver(messages)
    return least !== undefined
  }

  async #dispose(): Promise<void> {
    const iterations = [...this.#iterations]
    // Messages that the first iteration releases must not go to the next one.
    this.#iterations.clear()
    await Promise.all(iterations.map((iteration) => iteration.messages.end()))
    for (const open of this.#open) open.dispose()
    const lost = this.#accepted.dispose()
    if (lost > 0) this.#settings.logger.error({ messages: lost }, 'Messages that were accepted and not handled are lost with the source.')
  }
}

function tooMuch(): Response {
  return unavailable('The receiver is overloaded.')
}

const noEvent =
  'The request is not a CloudEvent in a supported format. Send ce- headers, application/cloudevents+json or application/cloudevents-batch+json.'

function hasEvent(headers: Headers): boolean {
  for (const header of headers.keys()) if (header.startsWith('ce-')) return true
  return false
}
