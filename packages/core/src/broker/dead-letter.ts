import { createHash } from 'node:crypto'
import { abortable } from '../async/abort.ts'
import { AckordError, isAckordError, toError } from '../errors.ts'
import { type Attributes, type AttributeValue, checkAttributes, setAttribute } from '../message/attributes.ts'
import { isRetryable, Message, type RawMessage } from '../message/message.ts'
import { describeError, redactDestination } from '../ports/redact.ts'
import type { Runtime } from '../ports/runtime.ts'
import { checkResults, type Publisher } from './publisher.ts'

/** The destination of messages that will not be handled. */
export interface DeadLetter {
  readonly publisher: Publisher
  readonly destination: string
}

/**
 * Sends the message to the dead letter and waits for the confirmation; rejects if there is none in time. A form that the dead letter refuses for good is
 * followed by the next one of `deadLetterForms()`. An error that is not retryable says that it has refused all of them.
 */
export async function sendDeadLetter(
  deadLetter: DeadLetter,
  message: RawMessage,
  error: unknown,
  options: { readonly runtime: Runtime; readonly timeout: number },
): Promise<void> {
  const { runtime, timeout } = options
  const { publisher, destination } = deadLetter
  const controller = new AbortController()
  const timer = runtime.setTimeout(() => controller.abort(deadLetterTooLate(destination, timeout)), timeout)
  try {
    const { signal } = controller
    let refusal: unknown
    for (const letter of deadLetterForms(message, error, runtime, originOf(message))) {
      try {
        checkResults(await abortable(publisher.publish(destination, [letter], { signal }), signal), 1, destination)
        return
      } catch (failure) {
        if (isRetryable(failure)) throw failure
        // The first refusal says the most about the message.
        refusal ??= failure
      }
    }
    throw refused(destination, refusal)
  } finally {
    timer.cancel()
  }
}

/** A message that has been a dead letter before may name another destination; without an origin that attribute is removed. */
function originOf({ origin }: RawMessage): Attributes {
  return { deadletterdestination: origin === undefined ? undefined : redactDestination(origin) }
}

/** The dead letter did not confirm within `timeout` milliseconds. */
export function deadLetterTooLate(destination: string, timeout: number): AckordError {
  return new AckordError(
    'ACKORD_PUBLISH_FAILED',
    `The dead letter '${redactDestination(destination)}' did not confirm within ${timeout} ms.`,
  )
}

function refused(destination: string, cause: unknown): AckordError {
  const text = `The dead letter '${redactDestination(destination)}' refused the message for good, and every smaller form of it as well. Check what the destination accepts.`
  return new AckordError('ACKORD_PUBLISH_FAILED', text, { retryable: false, cause })
}

/**
 * The forms of a dead letter, from the most faithful to the smallest. A broker may refuse a form for good: the attributes are larger than its headers,
 * an attribute has an invalid value, the message is as large as the broker allows and has no room for the reason. The next form is sent then.
 *
 * 1. The message as it came, with the reason.
 * 2. An envelope: a JSON document with all attributes, and the data in base64. Nothing is lost, and its own attributes are short.
 * 3. The bytes as they came, with only those attributes that are short and valid; then with id, source and type only.
 * 4. The envelope, cut to fit. It states the original sizes.
 *
 * The last form has less than 2 kB.
 */
export function* deadLetterForms(message: RawMessage, error: unknown, runtime: Runtime, more: Attributes = {}): Generator<RawMessage> {
  yield deadLetterOf(message, error, runtime).withAttributes(more)
  const failure = failureOf(error, runtime)
  yield envelope(message, failure, more, whole)
  yield bytes(message, { ...shortAttributes({ ...message.attributes, ...more }), deadletterreason: cut(failure.reason, 200).text })
  yield bytes(message, {})
  const size = message.data.byteLength
  // Base64 takes four bytes for three.
  if (size > 65_536) yield envelope(message, failure, more, { data: Math.floor((size * 3) / 4) - 32_768, value: 1024, attributes: 16 })
  if (size > 0) yield envelope(message, failure, more, { data: 16_384, value: 256, attributes: 16 })
  yield envelope(message, failure, {}, { data: 0, value: 64, attributes: 4 })
}

/** The letter as it is sent first: the message's own bytes, id and attributes, with `deadletterreason`, `deadlettercode` and `deadlettertime`. `readDeadLetter()` reads it back. */
export function deadLetterOf(message: RawMessage, error: unknown, runtime: Runtime): RawMessage {
  const { reason, code, time } = failureOf(error, runtime)
  return new Message(message.data, {
    ...message.attributes,
    deadletterreason: reason,
    ...(code === undefined ? {} : { deadlettercode: code }),
    deadlettertime: time,
  })
}

interface Failure {
  readonly reason: string
  readonly code: string | undefined
  readonly time: string
}

/** How much of a message an envelope holds: bytes of data, characters of a value, number of attributes. */
interface Limits {
  readonly data: number
  readonly value: number
  readonly attributes: number
}

const whole: Limits = { data: Infinity, value: Infinity, attributes: Infinity }

const utf8 = new TextEncoder()

function envelope(message: RawMessage, failure: Failure, more: Attributes, limits: Limits): RawMessage {
  const { data } = message
  const attributes = Object.entries({ ...message.attributes, ...more }).filter(([, value]) => value !== undefined)
  const kept = attributes.length <= limits.attributes ? attributes : identityFirst(attributes).slice(0, limits.attributes)
  const body = {
    reason: cut(failure.reason, Math.max(limits.value, 200)).text,
    ...(failure.code === undefined ? {} : { code: failure.code }),
    time: failure.time,
    attributes: kept.map(([name, value]) => entryOf(name, value, limits.value)),
    ...(kept.length < attributes.length ? { attributesOmitted: attributes.length - kept.length } : {}),
    dataLength: data.byteLength,
    data_base64: Buffer.from(data.buffer, data.byteOffset, Math.min(data.byteLength, limits.data)).toString('base64'),
  }
  return new Message(utf8.encode(JSON.stringify(body)), {
    ...identityOf(message),
    type: 'ackord.deadletter',
    datacontenttype: 'application/json',
    deadletterform: 'envelope',
    ...(failure.code === undefined ? {} : { deadlettercode: failure.code }),
    deadlettertime: failure.time,
  })
}

/** A sender may write any number of attributes before those that say what the message is. */
function identityFirst<Entry extends readonly [name: string, value: unknown]>(attributes: readonly Entry[]): readonly Entry[] {
  const isIdentity = ([name]: Entry) => name === 'id' || name === 'source' || name === 'type'
  return [...attributes.filter(isIdentity), ...attributes.filter((entry) => !isIdentity(entry))]
}

/** The data stays whole and as it was; `deadletterform` says that attributes are missing. */
function bytes(message: RawMessage, attributes: Attributes): RawMessage {
  const { type, datacontenttype } = shortAttributes(message.attributes)
  return new Message(message.data, {
    ...attributes,
    ...identityOf(message),
    type: type ?? 'ackord.deadletter',
    ...(datacontenttype === undefined ? {} : { datacontenttype }),
    deadletterform: 'bytes',
  })
}

/** An attribute in an envelope: its text, or the base64 of its bytes; `length` is there if it was cut. A list of entries, because an object could not hold every name. */
function entryOf(name: string, value: unknown, limit: number): Record<string, unknown> {
  const label = cut(name, Math.max(limit, 256))
  const entry: Record<string, unknown> = { name: label.text, ...(label.isCut ? { nameLength: name.length } : {}) }
  if (value instanceof Uint8Array) {
    const text = Buffer.from(value.buffer, value.byteOffset, Math.min(value.byteLength, limit)).toString('base64')
    return { ...entry, base64: text, ...(value.byteLength > limit ? { length: value.byteLength } : {}) }
  }
  if (typeof value === 'number' || typeof value === 'boolean') return { ...entry, value: Number.isNaN(value) ? 'NaN' : value }
  const text = value instanceof Date ? instantText(value) : String(value)
  const { text: kept, isCut } = cut(text, limit)
  return { ...entry, value: kept, ...(isCut ? { length: text.length } : {}) }
}

function instantText(value: Date): string {
  return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString()
}

/** Id and source if they are short, so that the message can be found by them; otherwise an id that is derived from the message. */
function identityOf({ data, attributes }: RawMessage): Attributes {
  const { id, source } = shortAttributes(attributes)
  return {
    specversion: '1.0',
    id:
      id ??
      `sha256-${createHash('sha256').update(String(attributes.source)).update('\0').update(String(attributes.id)).update(data).digest('hex')}`,
    source: source ?? '/ackord/deadletter',
  }
}

/** Those that any broker can carry: short names and values, of the types that CloudEvents has. */
function shortAttributes(attributes: Attributes): Attributes {
  const short: Record<string, AttributeValue> = {}
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || !/^[a-z0-9]{1,40}$/.test(name) || name === 'data') continue
    if (typeof value === 'string' ? value === '' || !shortText.test(value) : value instanceof Uint8Array && value.byteLength > 200) continue
    try {
      checkAttributes({ [name]: value }, 'a dead letter')
    } catch {
      continue
    }
    setAttribute(short, name, value)
  }
  return short
}

// Printable ASCII: each character takes one byte or, percent-encoded, three.
const shortText = /^[\x20-\x7e]{1,200}$/

function failureOf(error: unknown, runtime: Runtime): Failure {
  const failure = toError(error)
  const code = isAckordError(failure) ? failure.code : undefined
  return { reason: cut(describeError(failure, 950), 1000).text, code, time: new Date(runtime.now()).toISOString() }
}

/** Well-formed: half of a surrogate pair, which a cut may leave, cannot be written as UTF-8. */
function cut(text: string, length: number): { readonly text: string; readonly isCut: boolean } {
  return { text: text.slice(0, length).toWellFormed(), isCut: text.length > length }
}
