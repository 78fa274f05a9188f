import { AckordError, type Attributes, type AttributeValue } from '@ackord/core'
import { checkAttributes, readTraceHeaders } from '@ackord/core/broker'

/** An entry of a stream. */
export interface StreamEntry {
  readonly stream: string
  /** The id that the server made: milliseconds and a sequence number. */
  readonly id: string
  /** Names and values in turn, as they were added. */
  readonly fields: readonly Buffer[]
}

export interface StreamContent {
  readonly data: Uint8Array
  readonly attributes: Attributes
}

// CloudEvents reserves this name for the data, so no attribute can have it.
const dataField = 'data'

/** The maximum number of names and values: Lua cannot pass on more in one call. */
const maxFields = 7000

/**
 * The format that the publisher writes and the source reads: the field `data` has the bytes, each attribute is a field with its own name.
 * Strings, and instants as strings, are written as they are; for other values the name ends in their type: `attempt;number`, `urgent;boolean`,
 * `digest;bytes`. Throws at invalid attributes, and at more of them than an entry can have.
 */
export function writeEntry({ data, attributes }: StreamContent): (string | Buffer)[] {
  checkAttributes(attributes, 'the message', { retryable: false })
  const fields: (string | Buffer)[] = []
  for (const name in attributes) {
    const value = attributes[name]
    if (value !== undefined) fields.push(fieldName(name, value), fieldValue(value))
  }
  fields.push(dataField, bytesOf(data))
  if (fields.length > maxFields) throw tooMany(fields.length / 2)
  return fields
}

/** Reads an entry as the source does, for tools that look into a stream. Entries without `data` are those of other writers: they are read as a JSON object of their fields, with the entry's id, and the trace in their fields `traceparent`, `tracestate` and `baggage`. Throws if an entry cannot be read. */
export function readEntry(entry: StreamEntry): StreamContent {
  const values = new Map<string, Buffer>()
  for (let index = 0; index < entry.fields.length; index += 2) {
    const name = text('a field name', entry.fields[index] as Buffer)
    if (values.has(name)) throw unreadable(`it has the field '${name}' twice`)
    values.set(name, entry.fields[index + 1] as Buffer)
  }
  const data = values.get(dataField)
  if (data === undefined) return foreign(entry, values)
  values.delete(dataField)
  const attributes: Record<string, AttributeValue> = {}
  for (const [field, value] of values) {
    const { name, type } = attributeOf(field)
    if (Object.hasOwn(attributes, name)) throw unreadable(`it has the attribute '${name}' twice`)
    define(attributes, name, attributeValue(field, type, value))
  }
  return { data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength), attributes }
}

/** An entry that cannot be read, as the content of a dead letter: all fields, and the id. */
export function unreadContent({ stream, id, fields }: StreamEntry): StreamContent {
  const listed = JSON.stringify(fields.map((field) => field.toString('base64')))
  return {
    data: new TextEncoder().encode(listed),
    attributes: { id, source: stream, datacontenttype: 'application/json', streamentry: 'base64' },
  }
}

function foreign({ stream, id }: StreamEntry, values: ReadonlyMap<string, Buffer>): StreamContent {
  const members: Record<string, string> = {}
  for (const [name, value] of values) define(members, name, text(`the field '${name}'`, value))
  const attributes = { id, source: stream, datacontenttype: 'application/json' }
  return {
    data: new TextEncoder().encode(JSON.stringify(members)),
    attributes: readTraceHeaders(attributes, (name) => (Object.hasOwn(members, name) ? members[name] : undefined)),
  }
}

const typeMarks = ['number', 'boolean', 'bytes', 'text'] as const
type TypeMark = (typeof typeMarks)[number]

function fieldName(name: string, value: AttributeValue): string {
  if (typeof value === 'number' || typeof value === 'boolean') return `${name};${typeof value}`
  if (value instanceof Uint8Array) return `${name};bytes`
  // A name that looks as if it ended in a type.
  return name.includes(';') ? `${name};text` : name
}

function fieldValue(value: AttributeValue): string | Buffer {
  if (value instanceof Uint8Array) return bytesOf(value)
  if (value instanceof Date) return value.toISOString()
  return Object.is(value, -0) ? '-0' : String(value)
}

function attributeOf(field: string): { readonly name: string; readonly type: TypeMark } {
  const at = field.lastIndexOf(';')
  const type = typeMarks.find((mark) => mark === field.slice(at + 1))
  if (at === -1) return { name: field, type: 'text' }
  if (type === undefined) throw unreadable(`the field '${field}' ends in no type that is known`)
  return { name: field.slice(0, at), type }
}

function attributeValue(field: string, type: TypeMark, value: Buffer): AttributeValue {
  if (type === 'bytes') return new Uint8Array(value)
  const read = text(`the field '${field}'`, value)
  if (type === 'text') return read
  if (type === 'boolean') {
    if (read === 'true' || read === 'false') return read === 'true'
    throw unreadable(`the field '${field}' is neither true nor false`)
  }
  const number = Number(read)
  if (read.trim() === '' || !Number.isFinite(number)) throw unreadable(`the field '${field}' is not a number`)
  return number
}

/** Works for names such as `__proto__`, too. */
function define<T>(target: Record<string, T>, name: string, value: T): void {
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true })
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function text(what: string, value: Buffer): string {
  try {
    return utf8.decode(value)
  } catch (cause) {
    throw unreadable(`${what} is not UTF-8`, cause)
  }
}

function bytesOf(data: Uint8Array): Buffer {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength)
}

function tooMany(count: number): AckordError {
  const text = `A message has ${count} attributes with its data, and an entry of a stream can have at most ${maxFields / 2}.`
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text, { retryable: false })
}

function unreadable(problem: string, cause?: unknown): AckordError {
  return new AckordError('ACKORD_INVALID_MESSAGE', `An entry of a stream cannot be read: ${problem}.`, {
    retryable: false,
    ...(cause === undefined ? {} : { cause }),
  })
}

/** The next id: Redis 6.0 has no exclusive ranges. */
export function nextId(id: string): string {
  const { milliseconds, sequence } = partsOf(id)
  return sequence === lastSequence ? `${milliseconds + 1n}-0` : `${milliseconds}-${sequence + 1n}`
}

export function compareIds(left: string, right: string): number {
  const [one, other] = [partsOf(left), partsOf(right)]
  const difference = one.milliseconds === other.milliseconds ? one.sequence - other.sequence : one.milliseconds - other.milliseconds
  return difference < 0n ? -1 : difference > 0n ? 1 : 0
}

const lastSequence = 2n ** 64n - 1n

function partsOf(id: string): { readonly milliseconds: bigint; readonly sequence: bigint } {
  const [milliseconds = '0', sequence = '0'] = id.split('-')
  return { milliseconds: BigInt(milliseconds), sequence: BigInt(sequence) }
}
