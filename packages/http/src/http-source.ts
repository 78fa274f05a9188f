import {
  type Attributes,
  consoleLogger,
  createReceiver,
  type Delivery,
  InvalidOptionError,
  type Logger,
  outside,
  type RawMessage,
  type ReceiverOptions,
  type Runtime,
  type Source,
  systemRuntime,
} from '@ackord/core'
import { checkChoice, checkCount, checkDuration, checkFunction, checkNoMore, guardLogger } from '@ackord/core/internal'
import { AcceptedMessages } from './accepted-messages.ts'
import { accepted, answer, unavailable } from './answers.ts'
import { checkGenuine } from './check-genuine.ts'
import { contentMode } from './content-mode.ts'
import { DeliveryCounts } from './delivery-counts.ts'
import type { HeldMessage } from './held-message.ts'
import { HttpIteration, type IterationOwner } from './http-iteration.ts'
import { OpenRequest } from './open-request.ts'
import { readBody } from './read-body.ts'
import { type EventContent, type HttpRequest, readEvents, readForeign } from './read-events.ts'
import { type RequestVerifier, requestVerifier } from './request-verifier.ts'

export interface HttpSourceOptions extends ReceiverOptions {
  /**
   * Whom requests must come from: the secret of Standard Webhooks (`whsec_…`), or several while one is being replaced; or a function that
   * says whether a request is genuine, within `bodyTimeout`. Others are answered with 401. Default: everybody.
   */
  readonly verify?: string | readonly string[] | ((request: HttpRequest) => boolean | Promise<boolean>) | undefined
  /**
   * How many milliseconds the time of a signed request may be away from ours. Within it a request that was overheard can be sent once more, which an
   * inbox takes for a duplicate; with `unsignedAttributes` it can be sent with another type and source, and is none then. Default: 300,000.
   */
  readonly tolerance?: number | undefined
  /**
   * With a secret: takes events in binary mode too, although only their id and their data are signed, and neither type nor source. Set it only
   * if nobody can overhear or change requests. Default: false, and they are answered with 401.
   */
  readonly unsignedAttributes?: boolean | undefined
  /**
   * The attributes of a request, for senders that do not send CloudEvents. What it throws is answered with 400.
   * Default: CloudEvents in binary, structured or batch mode; other requests are answered with 415.
   */
  readonly attributes?: ((request: HttpRequest) => Attributes) | undefined
  /**
   * When a request is answered. `settled`: once its messages are handled, so that the sender keeps them until then. `accepted`: at once, with 202; then a message
   * that is nacked is delivered again from memory, and those in memory are lost with the process. Default: 'settled'.
   */
  readonly respond?: 'settled' | 'accepted' | undefined
  /**
   * How many requests may be in hand, each with up to `maxBodySize` bytes; more are answered with 503. A router needs at least its
   * `concurrency`. With `respond: 'accepted'` messages that are not handled count too. Default: 100.
   */
  readonly maxRequests?: number | undefined
  /** The most bytes of a body; larger ones are answered with 413. Default: 1,048,576. */
  readonly maxBodySize?: number | undefined
  /** Milliseconds that a body may take to arrive; then 408. As many has a function `verify` afterwards; then 503. Default: 10,000. */
  readonly bodyTimeout?: number | undefined
  /**
   * Milliseconds that a request waits for its messages to be settled; then 504, although they may still be handled. Shorter than what the sender waits.
   * Default: 30,000.
   */
  readonly settleTimeout?: number | undefined
}

/** A source whose messages come by requests. */
export interface HttpSource extends Source {
  /** Answers a request once its messages are settled. Never rejects. A function of its own: it may be passed on alone. */
  readonly handler: (request: Request) => Promise<Response>
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * CloudEvents that others send by HTTP. Give `handler` to a server, by `toNodeHandler`, `toExpressHandler`, `toFastifyPlugin`, `toHonoHandler` or as it is; while
 * nobody reads `messages()`, requests are answered with 503. Several readers share the requests.
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
    bodyTimeout = 10_000,
    settleTimeout = 30_000,
    deadLetter,
    deadLetterTimeout,
    runtime = systemRuntime,
    logger: given = consoleLogger,
    ...unknown
  } = options
  checkNoMore('An HTTP source', unknown)
  checkDuration('tolerance', tolerance)
  if (attributes !== undefined) checkFunction('attributes', attributes)
  checkChoice('respond', respond, ['settled', 'accepted'])
  checkCount('maxRequests', maxRequests)
  checkCount('maxBodySize', maxBodySize)
  checkDuration('bodyTimeout', bodyTimeout, { min: 1 })
  checkDuration('settleTimeout', settleTimeout, { min: 1 })
  if (verify === undefined && Object.hasOwn(options, 'verify')) {
    throw new InvalidOptionError(
      'verify',
      'is undefined, as a secret that is missing in the environment is. Leave the option out to take what nobody signed.',
    )
  }
  if (verify === undefined && options.tolerance !== undefined) throw new InvalidOptionError('tolerance', "is of no use without 'verify'.")
  if (typeof unsignedAttributes !== 'boolean') throw new InvalidOptionError('unsignedAttributes', 'must be true or false.')
  if (unsignedAttributes && (verify === undefined || typeof verify === 'function' || attributes !== undefined))
    throw new InvalidOptionError('unsignedAttributes', "is of use only with a secret in 'verify', and without 'attributes'.")
  const logger = guardLogger(given)
  const receive = createReceiver({ deadLetter, deadLetterTimeout, runtime, logger })
  const unsigned = attributes === undefined ? unsignedAttributes : 'foreign'
  const verifier = verify === undefined ? undefined : requestVerifier(verify, { tolerance, unsignedAttributes: unsigned, runtime })
  return new RequestSource({
    verifier,
    attributes,
    respond,
    maxRequests,
    maxBodySize,
    bodyTimeout,
    settleTimeout,
    runtime,
    logger,
    receive,
  })
}

interface SourceSettings {
  readonly verifier: RequestVerifier | undefined
  readonly attributes: ((request: HttpRequest) => Attributes) | undefined
  readonly respond: 'settled' | 'accepted'
  readonly maxRequests: number
  readonly maxBodySize: number
  readonly bodyTimeout: number
  readonly settleTimeout: number
  readonly runtime: Runtime
  readonly logger: Logger
  readonly receive: (delivery: Delivery) => RawMessage
}

class RequestSource implements HttpSource, IterationOwner {
  readonly counts: DeliveryCounts = new DeliveryCounts()
  readonly receive: (delivery: Delivery) => RawMessage
  readonly #settings: SourceSettings
  readonly #iterations = new Set<HttpIteration>()
  readonly #open = new Set<OpenRequest>()
  readonly #accepted: AcceptedMessages
  #requests = 0
  #disposing: Promise<void> | undefined

  constructor(settings: SourceSettings) {
    this.#settings = settings
    this.receive = settings.receive
    this.#accepted = new AcceptedMessages(settings.runtime, (messages) => this.#deliver(messages))
  }

  get disposed(): boolean {
    return this.#disposing !== undefined
  }

  readonly handler = async (request: Request): Promise<Response> => {
    try {
      // A server's context, with its spans and stores, is not the one of whoever handles the messages.
      return await outside(() => this.#limited(request))
    } catch (error) {
      this.#settings.logger.error({ err: error }, 'A request could not be taken.')
      return answer(500, 'The request could not be taken.')
    }
  }

  messages(options: { readonly signal: AbortSignal }): AsyncIterableIterator<RawMessage> {
    return new HttpIteration(this, options.signal).messages
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#disposing ??= this.#dispose()
    return this.#disposing
  }

  started(iteration: HttpIteration): void {
    this.#iterations.add(iteration)
    this.#accepted.resume()
  }

  ended(iteration: HttpIteration): void {
    this.#iterations.delete(iteration)
  }

  async #limited(request: Request): Promise<Response> {
    if (request.method !== 'POST') return answer(405, 'Events come by POST.', { allow: 'POST' })
    if (this.#iterations.size === 0) return unavailable('The receiver is stopping, or has not started.')
    if (this.#requests + this.#accepted.size >= this.#settings.maxRequests) return unavailable('The receiver has too much to do.')
    this.#requests += 1
    const open = await this.#begin(request).catch((error: unknown) => {
      this.#requests -= 1
      throw error
    })
    if (open instanceof OpenRequest) {
      // Not when it is answered: one whose client has gone goes on.
      void open.over.then(() => this.#finished(open))
      return await open.answered
    }
    this.#requests -= 1
    return open
  }

  /** What has to be waited for, or the answer where there is nothing to wait for. */
  async #begin(request: Request): Promise<OpenRequest | Response> {
    const contents = await this.#read(request)
    return contents instanceof Response ? contents : this.#take(contents, request.signal)
  }

  /** The events of a request, or the answer to one that is not taken. */
  async #read(request: Request): Promise<readonly EventContent[] | Response> {
    const { verifier, attributes, bodyTimeout, runtime, logger } = this.#settings
    const { url, headers, signal: client } = request
    const encoding = headers.get('content-encoding') ?? 'identity'
    if (encoding.toLowerCase() !== 'identity') return answer(415, 'Compressed bodies are not taken.', { 'accept-encoding': 'identity' })
    const mode = contentMode(headers.get('content-type'))
    if (attributes === undefined && (mode === 'unknown' || (mode === 'binary' && !hasEvent(headers)))) return answer(415, noEvent)
    const body = await readBody(request, this.#settings)
    if (body instanceof Response) return body
    const read: HttpRequest = { url, headers, body }
    const refusal = verifier && (await checkGenuine(verifier, read, { timeout: bodyTimeout, client, runtime, logger }))
    if (refusal !== undefined) return refusal
    try {
      if (attributes !== undefined) return [readForeign(read, attributes)]
      return readEvents(read, mode === 'unknown' ? 'binary' : mode)
    } catch (error) {
      logger.warn({ err: error }, 'A request was refused: it cannot be read.')
      return answer(400, attributes === undefined && error instanceof Error ? error.message : 'The request cannot be read.')
    }
  }

  #take(contents: readonly EventContent[], client: AbortSignal): OpenRequest | Response {
    const { respond, runtime, settleTimeout } = this.#settings
    // The last reader may have left while the request was read.
    if (this.#iterations.size === 0) return unavailable('The receiver is stopping.')
    if (respond === 'accepted') {
      this.#accepted.accept(contents)
      return accepted()
    }
    const open = new OpenRequest(contents, { settleTimeout, runtime, client })
    this.#open.add(open)
    this.#deliver(open.messages)
    return open
  }

  #finished(open: OpenRequest): void {
    this.#requests -= 1
    this.#open.delete(open)
  }

  /** To the reader that has the least to do. `false` if there is none. */
  #deliver(messages: readonly HeldMessage[]): boolean {
    let least: HttpIteration | undefined
    for (const iteration of this.#iterations)
      if (!iteration.isEnding && (least === undefined || iteration.load < least.load)) least = iteration
    least?.deliver(messages)
    return least !== undefined
  }

  async #dispose(): Promise<void> {
    const iterations = [...this.#iterations]
    // What the first gives back must not go to the next.
    this.#iterations.clear()
    await Promise.all(iterations.map((iteration) => iteration.messages.end()))
    for (const open of this.#open) open.dispose()
    const lost = this.#accepted.dispose()
    if (lost > 0) this.#settings.logger.error({ messages: lost }, 'Messages that were accepted and not handled are lost with the source.')
  }
}

const noEvent =
  'This is no CloudEvent that can be read here. Send ce- headers, application/cloudevents+json or application/cloudevents-batch+json.'

function hasEvent(headers: Headers): boolean {
  for (const header of headers.keys()) if (header.startsWith('ce-')) return true
  return false
}
