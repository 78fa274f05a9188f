import { type Attributes, type AttributeValue, setAttribute } from '../message/attributes.ts'
import { Message, type RawMessage } from '../message/message.ts'

/** A dead letter, read back. */
export interface DeadLetterContent {
  /** The message as it was rejected, as far as the letter holds it. It cannot be settled. */
  readonly message: RawMessage
  /** The part of the message that the letter does not hold: attributes that the dead letter's broker refused, or data. `undefined`: it is complete. */
  readonly missing: 'attributes' | 'data' | undefined
  /** The destination that the message was received from, or was to be published to. */
  readonly destination: string | undefined
  readonly reason: string | undefined
  readonly code: string | undefined
  /** When it was rejected. */
  readonly time: string | undefined
}

/** Reads what `deadLetterForms()` wrote, in any of its forms. A message that was never rejected is returned as it is. Never throws. */
export function readDeadLetter(letter: RawMessage): DeadLetterContent {
  const { deadletterform: form } = letter.attributes
  if (form === 'envelope') return readEnvelope(letter)
  const missing = form === 'bytes' ? 'attributes' : form === 'nodata' ? 'data' : undefined
  return { ...failureIn(letter.attributes), message: restored(letter.data, letter.attributes), missing }
}

/** Every attribute that marks a dead letter. Those of Redis Streams are written by `streamSource()`. */
const marks: ReadonlySet<string> = new Set(
  ['reason', 'code', 'time', 'destination', 'form', 'stream', 'group', 'entry', 'deliveries'].map((name) => `deadletter${name}`),
)

function restored(data: Uint8Array, attributes: Attributes): RawMessage {
  const own: Record<string, AttributeValue> = {}
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined && !marks.has(name)) setAttribute(own, name, value)
  return new Message(data, own)
}

function failureIn(attributes: Attributes): Pick<DeadLetterContent, 'destination' | 'reason' | 'code' | 'time'> {
  return {
    destination: text(attributes['deadletterdestination']),
    reason: text(attributes['deadletterreason']),
    code: text(attributes['deadlettercode']),
    time: text(attributes['deadlettertime']),
  }
}

/** A document that is no envelope of ours is a letter without its data. */
function readEnvelope(letter: RawMessage): DeadLetterContent {
  const own = failureIn(letter.attributes)
  const body = parse(letter.data)
  const { attributes: entries, data_base64: encoded, dataLength } = body
  if (!Array.isArray(entries) || typeof encoded !== 'string' || typeof dataLength !== 'number') {
    return { ...own, message: restored(new Uint8Array(), letter.attributes), missing: 'data' }
  }
  const attributes: Record<string, AttributeValue> = {}
  let isCut = body['attributesOmitted'] !== undefined
  for (const entry of entries as readonly Readonly<Record<string, unknown>>[]) {
    const value = attributeIn(entry)
    if (value === undefined || typeof entry['name'] !== 'string') isCut = true
    else setAttribute(attributes, entry['name'], value)
  }
  const data = new Uint8Array(Buffer.from(encoded, 'base64'))
  return {
    message: restored(data, attributes),
    missing: data.byteLength !== dataLength ? 'data' : isCut ? 'attributes' : undefined,
    destination: text(attributes['deadletterdestination']) ?? own.destination,
    reason: text(body['reason']) ?? own.reason,
    code: text(body['code']) ?? own.code,
    time: text(body['time']) ?? own.time,
  }
}

function parse(data: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    const body: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(data))
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

/** `undefined` for an attribute whose name or value was cut. */
function attributeIn(entry: Readonly<Record<string, unknown>>): AttributeValue | undefined {
  if (typeof entry !== 'object' || entry === null || 'length' in entry || 'nameLength' in entry) return undefined
  const { value, base64 } = entry
  if (typeof base64 === 'string') return new Uint8Array(Buffer.from(base64, 'base64'))
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : undefined
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
