import { AckordError, type Attributes, Message, type RawMessage } from '@ackord/core'
import { checkAttributes, missingAttributes } from '@ackord/core/broker'
import { checkDuration, describeMessage, describeValue, invalidMessageError, messageOf } from '@ackord/core/internal'
import { attributesToJson, checkRecordSize, type NewOutboxRecord } from '@ackord/outbox'
import { toBuffer } from '../client/argument.ts'
import type { RedisArgument } from '../client/port.ts'

/** The fields of a stored entry. */
type StreamFields = Readonly<Record<string, string | Uint8Array>>

/** Turns a message into the fields of an entry, and back. The field `ackord` is reserved for the outbox. */
export interface StreamCodec {
  readonly marshal: (message: RawMessage) => StreamFields
  /** Throws if it cannot read the fields: then the record is parked. */
  readonly unmarshal: (fields: ReadonlyMap<string, Uint8Array>) => RawMessage
}

/**
 * `<order>;<delay>;`, and by default the attributes as JSON behind it: another field per entry is measurable when hundreds are read at once.
 * The order is that in which a process stored its records: ids of different streams have the order of milliseconds only.
 */
const ownField = 'ackord'
const ownName = Buffer.from(ownField)
const dataField = 'data'
const dataName = Buffer.from(dataField)

/** The fields of a record's entry. Throws if they could not be read back, before anything is stored. `codec`: `undefined` for the default. `maxSize`: not for stored records. */
export function fieldsOf(
  record: NewOutboxRecord,
  codec: StreamCodec | undefined,
  order: string,
  maxSize: number = Infinity,
): RedisArgument[] {
  const { destination, message, delay } = record
  checkRecord(destination, message)
  if (delay !== undefined) checkDuration('delay', delay)
  const attributes = attributesToJson(message.attributes)
  checkRecordSize(record, attributes, maxSize)
  const header = delay === undefined || delay === 0 ? `${order};;` : `${order};${Math.ceil(delay)};`
  if (codec === undefined) return [ownField, header + attributes, dataField, toBuffer(message.data)]
  const fields: RedisArgument[] = [ownField, header]
  for (const [name, value] of Object.entries(codec.marshal(message))) {
    if (name === ownField) throw invalidMessageError(message, `was marshalled to a field '${name}', which is the outbox's own`)
    if (typeof value !== 'string' && !(value instanceof Uint8Array)) {
      throw invalidMessageError(
        message,
        `was marshalled to a field '${name}' that is neither a string nor bytes but ${describeValue(value)}`,
      )
    }
    fields.push(name, typeof value === 'string' ? value : toBuffer(value))
  }
  return fields
}

export interface ReadRecord {
  /** Empty if the entry cannot be read; `problem` says why. */
  readonly message: RawMessage
  readonly problem: string | undefined
  /** Milliseconds. */
  readonly delay: number
  readonly order: string
}

/** Reads the fields as the server returns them: names and values in turn. */
export function readFields(fields: readonly Buffer[], codec: StreamCodec | undefined): ReadRecord {
  let order = ''
  let delay = 0
  try {
    const [name, value] = fields
    if (name?.equals(ownName) !== true || value === undefined) throw new Error("its entry does not begin with the field 'ackord'.")
    const text = value.toString()
    const first = text.indexOf(';')
    const second = text.indexOf(';', first + 1)
    order = text.slice(0, first)
    // Few records have a delay.
    if (second > first + 1) delay = Number(text.slice(first + 1, second)) || 0
    const message = codec === undefined ? readDefault(fields, text.slice(second + 1)) : readByCodec(fields, codec)
    return { message, problem: undefined, delay, order }
  } catch (error) {
    const problem = `It cannot be read: ${error instanceof Error ? messageOf(error) : String(error)}`
    return { message: new Message(new Uint8Array(), {}), problem, delay, order }
  }
}

function readDefault(fields: readonly Buffer[], json: string): RawMessage {
  const [, , name, data] = fields
  if (name?.equals(dataName) !== true || data === undefined) throw new Error("its entry has no field 'data'.")
  return new Message(toBytes(data), attributesFromJson(JSON.parse(json)))
}

function readByCodec(fields: readonly Buffer[], { unmarshal }: StreamCodec): RawMessage {
  const values = new Map<string, Uint8Array>()
  for (let index = 2; index < fields.length; index += 2) values.set(String(fields[index]), toBytes(fields[index + 1] as Buffer))
  const message = unmarshal(values)
  if (!(message?.data instanceof Uint8Array)) throw new Error('unmarshal() gave no message with bytes.')
  return message
}

export function attributesFromJson(parsed: unknown): Attributes {
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) {
    let plain = true
    for (const name in parsed) plain &&= isPlain((parsed as Record<string, unknown>)[name])
    // Every value was checked.
    if (plain) return parsed as Attributes
  }
  throw new Error('its attributes are not the JSON of an object with texts, numbers and booleans.')
}

function isPlain(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
}

/** Throws if no store of this package could return the record. */
export function checkRecord(destination: string, message: RawMessage): void {
  const { data, attributes } = message
  if (!(data instanceof Uint8Array))
    throw invalidMessageError(message, `has data that is not bytes but ${describeValue(data)}; marshal() it first`)
  if (typeof destination !== 'string' || destination === '')
    throw invalidMessageError(message, 'cannot be stored: its destination is empty')
  // Encoded, every lone surrogate becomes the same replacement character, and two destinations would become one.
  if (!destination.isWellFormed()) throw invalidMessageError(message, 'cannot be stored: its destination is not well-formed Unicode')
  checkAttributes(attributes, () => describeMessage(message))
  const missing = missingAttributes({ specversion: '1.0', ...attributes })
  if (missing.length === 0) return
  throw new AckordError(
    'ACKORD_MISSING_ATTRIBUTE',
    `Cannot store ${describeMessage(message)} in the outbox: it has no ${missing.join(', no ')}.`,
  )
}

/** Not a Buffer, whose methods differ. */
export function toBytes(buffer: Buffer): Uint8Array {
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)
}
