import { AckordError, type Attributes, parseMessage, type Runtime } from '@ackord/core'
import { checkAttributes, missingAttributes, readTraceHeaders } from '@ackord/core/broker'
import { abortable } from '@ackord/core/internal'
import { type ContentMode, parseBatch } from '../cloudevents/content-mode.ts'
import { readHeaders } from '../cloudevents/headers.ts'
import { answer, unavailable } from './answers.ts'
import type { PendingBytes } from './pending-bytes.ts'

export interface BodyLimits {
  readonly maxBodySize: number
  readonly bodyTimeout: number
  readonly runtime: Runtime
}

/** A body, and the bytes of memory that are reserved for it until its request has ended. */
export interface ReceivedBody {
  readonly body: Uint8Array
  readonly reserved: number
}

/**
 * The bytes of the body, or the answer to a body that is too large, too slow, incomplete, or had to make room for others. Counts the bytes that arrive, not
 * `content-length`. The rest of a refused body is left to the server: cancelling it would close the connection before the answer is sent.
 */
export async function readBody(request: Request, limits: BodyLimits, pending: PendingBytes): Promise<ReceivedBody | Response> {
  const { maxBodySize, bodyTimeout, runtime } = limits
  if (Number(request.headers.get('content-length') ?? 0) > maxBodySize) return tooLarge(maxBodySize)
  if (request.bodyUsed) throw new AckordError('ACKORD_INVALID_OPTION', bodyGone)
  const reader = request.body?.getReader()
  if (reader === undefined) return { body: new Uint8Array(), reserved: 0 }
  const limit = new AbortController()
  const arriving = pending.arrive(() => limit.abort(madeRoom))
  const timer = runtime.setTimeout(() => limit.abort(tooSlow), bodyTimeout)
  const pieces = new Pieces()
  let size = 0
  let received = false
  try {
    for (;;) {
      const { done, value } = await abortable(reader.read(), limit.signal)
      if (done) {
        received = true
        return { body: pieces.join(), reserved: arriving.end() }
      }
      size += value.byteLength
      if (size > maxBodySize) return tooLarge(maxBodySize)
      if (!arriving.reserve(value.byteLength)) return noRoom()
      pieces.add(value)
    }
  } catch {
    if (limit.signal.reason === madeRoom) return noRoom()
    if (limit.signal.aborted) return answer(408, `The body took longer than ${bodyTimeout} ms.`, { connection: 'close' })
    return answer(400, 'The body is incomplete.')
  } finally {
    timer.cancel()
    if (!received) pending.release(arriving.end())
  }
}

// Bytes.
const smallPiece = 1024
const blockSize = 4096

/** Pieces of a body. The object of each piece takes a few hundred bytes, so small pieces are combined. */
class Pieces {
  readonly #pieces: Uint8Array[] = []
  #block: Uint8Array | undefined
  #filled = 0

  add(piece: Uint8Array): void {
    if (this.#filled + piece.byteLength > blockSize) this.#endBlock()
    if (piece.byteLength >= smallPiece) {
      this.#endBlock()
      this.#pieces.push(piece)
      return
    }
    this.#block ??= new Uint8Array(blockSize)
    this.#block.set(piece, this.#filled)
    this.#filled += piece.byteLength
  }

  join(): Uint8Array {
    this.#endBlock()
    return Buffer.concat(this.#pieces)
  }

  #endBlock(): void {
    if (this.#block === undefined || this.#filled === 0) return
    this.#pieces.push(this.#block.slice(0, this.#filled))
    this.#filled = 0
  }
}

const tooSlow = Symbol('too slow')
const madeRoom = Symbol('made room')

const bodyGone = 'The body of a request was read before the HTTP source got it. Mount its handler before any body parser.'

function tooLarge(maxBodySize: number): Response {
  return answer(413, `The body is larger than ${maxBodySize} bytes.`)
}

function noRoom(): Response {
  return unavailable('The receiver is overloaded.', { connection: 'close' })
}

/** A request with its body, for functions in the options. */
export interface HttpRequest {
  readonly url: string
  readonly headers: Headers
  readonly body: Uint8Array
}

/** The data and attributes of an event. */
export interface EventContent {
  readonly data: Uint8Array
  readonly attributes: Attributes
}

/** The largest attributes that are accepted, in bytes of UTF-8. */
export interface AttributeLimits {
  readonly maxIdSize: number
  readonly maxAttributesSize: number
}

export interface ReadOptions extends AttributeLimits {
  /** Whether an event without a trace gets that of the request's headers. */
  readonly readsTrace: boolean
}

/** The events of a request. Throws for invalid ones, with the reason. */
export function readEvents(request: HttpRequest, mode: Exclude<ContentMode, 'unknown'>, options: ReadOptions): readonly EventContent[] {
  // The trace of such a request says nothing about the single events.
  if (mode === 'batch') return Array.from(parseBatch(request.body), (event) => complete(event, options))
  const { body, headers } = request
  const event = complete(mode === 'binary' ? { data: body, attributes: readHeaders(headers) ?? {} } : parseMessage(body), options)
  return [options.readsTrace ? withTrace(event, headers, options) : event]
}

/** The trace is omitted if it would make the attributes too large: without it, the event is valid. */
function withTrace(event: EventContent, headers: Headers, { maxAttributesSize }: AttributeLimits): EventContent {
  const attributes = readTraceHeaders(event.attributes, (name) => headers.get(name))
  return attributes === event.attributes || sizeOf(attributes) > maxAttributesSize ? event : { data: event.data, attributes }
}

/** The one event of a request that is no CloudEvent. */
export function readForeign(request: HttpRequest, attributes: (request: HttpRequest) => Attributes, limits: AttributeLimits): EventContent {
  const given = attributes(request)
  if (typeof given !== 'object' || given === null)
    throw invalid('ACKORD_INVALID_ATTRIBUTES', "The option 'attributes' returned no attributes.")
  checkAttributes(given, 'the request', { retryable: false })
  checkSizes(given, limits)
  return { data: request.body, attributes: given }
}

// Objects, closures and table entries of one message, measured with small events.
const bytesPerEvent = 800

/** An estimate of the memory that the events take while they are unsettled. */
export function memoryOf(contents: readonly EventContent[]): number {
  let bytes = 0
  for (const { data, attributes } of contents) bytes += bytesPerEvent + data.byteLength + sizeOf(attributes)
  return bytes
}

/** The size of names and values in bytes of UTF-8, about as in headers. */
function sizeOf(attributes: Attributes): number {
  let bytes = 0
  for (const name in attributes) {
    const value = attributes[name]
    bytes += Buffer.byteLength(name)
    if (typeof value === 'string') bytes += Buffer.byteLength(value)
    else bytes += value instanceof Uint8Array ? value.byteLength : 8
  }
  return bytes
}

function checkSizes(attributes: Attributes, { maxIdSize, maxAttributesSize }: AttributeLimits): void {
  const idSize = Buffer.byteLength(attributes.id ?? '')
  if (idSize > maxIdSize) throw invalid('ACKORD_INVALID_ATTRIBUTES', `The id has ${idSize} bytes; the limit is ${maxIdSize}.`)
  const size = sizeOf(attributes)
  if (size > maxAttributesSize)
    throw invalid('ACKORD_INVALID_ATTRIBUTES', `The attributes have ${size} bytes; the limit is ${maxAttributesSize}.`)
}

function complete({ data, attributes }: EventContent, limits: AttributeLimits): EventContent {
  checkAttributes(attributes, 'the event', { retryable: false })
  checkSizes(attributes, limits)
  const missing = missingAttributes(attributes)
  if (missing.length > 0) throw invalid('ACKORD_MISSING_ATTRIBUTE', `The event lacks ${missing.map((name) => `'${name}'`).join(', ')}.`)
  const { specversion } = attributes
  if (specversion === undefined || !/^1\.\d+$/.test(specversion)) throw invalid('ACKORD_INVALID_ATTRIBUTES', "'specversion' must be '1.0'.")
  return { data, attributes }
}

function invalid(code: 'ACKORD_MISSING_ATTRIBUTE' | 'ACKORD_INVALID_ATTRIBUTES', text: string): AckordError {
  return new AckordError(code, text, { retryable: false })
}
