import { AckordError, type Attributes, type AttributeValue, checkAttributes } from '@ackord/core'

/** An entry as the server has it. */
export interface StreamEntry {
  readonly stream: string
  /** The server's own: milliseconds and a sequence number. */
  readonly id: string
  /** Names and values in turn, as they were added. */
  readonly fields: readonly Buffer[]
}

export interface StreamContent {
  readonly data: Uint8Array
  readonly attributes: Attributes
}

// CloudEvents keeps this name for the data, so no attribute can be there.
const dataField = 'data'

/** Names and values: Lua cannot pass on more in one call. */
const mostFields = 7000

/**
 * The one format that the publisher writes and the source reads: the field `data` has the bytes, each attribute is a field of its own name.
 * Text, and instants as their text, are written as they are; of other values the name ends in their type: `attempt;number`, `urgent;boolean`,
 * `digest;bytes`. Throws at what is no attribute, and at more of them than an entry can have here.
 */
export function writeEntry({ data, attributes }: StreamContent): (string | Buffer)[] {
  checkAttributes(attributes, 'the message', { retryable: false })
  const fields: (string | Buffer)[] = []
  for (const name in attributes) {
    const value = attributes[name]
    if (value !== undefined) fields.push(fieldName(name, value), fieldValue(value))
  }
  fields.push(dataField, bytesOf(data))
  if (fields.length > mostFields) throw tooMany(fields.length / 2)
  return fields
}

/** Entries without `data` are others': they are read as a JSON object of their fields, with the entry's id. Throws at what cannot be read. */
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

/** What is left of an entry that cannot be read, for the dead letter: all of it, with its id. */
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
  return {
    data: new TextEncoder().encode(JSON.stringify(members)),
    attributes: { id, source: stream, datacontenttype: 'application/json' },
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

/** Also under a name such as `__proto__`. */
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
  const text = `A message has ${count} attributes with its data, and an entry of a stream can have ${mostFields / 2} here.`
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text, { retryable: false })
}

function unreadable(problem: string, cause?: unknown): AckordError {
  return new AckordError('ACKORD_INVALID_MESSAGE', `An entry of a stream cannot be read: ${problem}.`, {
    retryable: false,
    ...(cause === undefined ? {} : { cause }),
  })
}

/** The id right behind this one: ranges of 6.0 cannot leave out where they start. */
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
