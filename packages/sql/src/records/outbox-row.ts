import { AckordError, type Attributes, Message, type RawMessage } from '@ackord/core'
import { missingAttributes } from '@ackord/core/broker'
import { checkDuration, describeMessage, describeValue, invalidMessageError } from '@ackord/core/internal'
import { attributesToJson, checkRecordSize, type NewOutboxRecord, type OutboxReference } from '@ackord/outbox'
import type { Order, Row } from './row.ts'
import { problemOf } from './text-limits.ts'

/** A record as stored in the table, without the columns that the database adds. */
export interface OutboxRow {
  readonly destination: string
  readonly id: string
  readonly type: string
  readonly contentType: string | null
  readonly orderingKey: string | null
  readonly partition: number
  /** Whether it has a key whose writers wait for each other, so that its rows are in the order of their commits. */
  readonly ordered: boolean
  readonly data: Uint8Array
  /** JSON. */
  readonly attributes: string
  /** Milliseconds. */
  readonly delay: number
}

/**
 * Throws for a record that could not be stored, before anything is: a failed statement would undo the business writes. `maxSize` does not apply to
 * stored records, which an operator may re-arm.
 */
export function outboxRowOf(record: NewOutboxRecord, order: Order = 'none', maxSize: number = Infinity): OutboxRow {
  const { destination, message, delay = 0 } = record
  const { data } = message
  if (!(data instanceof Uint8Array)) {
    throw invalidMessageError(message, `has data that is not bytes but ${describeValue(data)}; marshal() it first`)
  }
  checkText(message, 'destination', destination)
  checkDuration('delay', delay)
  const { attributes } = message
  checkComplete(attributes, message)
  const { id = '', type = '', datacontenttype, partitionkey } = attributes
  checkText(message, 'id', id)
  checkText(message, 'type', type)
  if (datacontenttype !== undefined) checkText(message, 'datacontenttype', datacontenttype)
  if (partitionkey !== undefined) checkText(message, 'partitionkey', partitionkey)
  const json = attributesToJson(attributes)
  checkRecordSize(record, json, maxSize)
  return {
    destination,
    id,
    type,
    contentType: datacontenttype ?? null,
    orderingKey: partitionkey ?? null,
    partition: partitionOf(partitionkey ?? id),
    ordered: order === 'perKey' && partitionkey !== undefined,
    data,
    attributes: json,
    delay,
  }
}

function checkComplete(attributes: Attributes, owner: RawMessage): void {
  const missing = missingAttributes(attributes)
  if (missing.length === 0) return
  const needed = missing.filter((name) => name !== 'specversion' || attributes.specversion === '')
  if (needed.length === 0) return
  throw new AckordError(
    'ACKORD_MISSING_ATTRIBUTE',
    `Cannot store ${describeMessage(owner)} in the outbox: it has no ${needed.join(', no ')}.`,
  )
}

/** `undefined` if it was not written by `attributesToJson`. */
function attributesFromJson(json: string): Attributes | undefined {
  let parsed: unknown
  try {
    parsed = JSON.parse(json)
  } catch {
    return undefined
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return undefined
  // A loop, because it runs for every claimed record.
  for (const name in parsed) {
    const kind = typeof (parsed as Record<string, unknown>)[name]
    if (kind !== 'string' && kind !== 'number' && kind !== 'boolean') return undefined
  }
  // Every value was checked.
  return parsed as Attributes
}

function checkText(message: RawMessage, name: string, value: unknown): void {
  const problem = value === '' && name !== 'partitionkey' ? 'is empty' : problemOf(value)
  if (problem !== undefined) throw invalidMessageError(message, `cannot be stored: its ${name} ${problem}`)
}

/** The message of a row. If its attributes cannot be read, it has those with a column of their own, and `problem` says so. */
export function readMessage(row: Row): { readonly message: RawMessage; readonly problem: string | undefined } {
  const data = bytesOf(row['data'])
  const attributes = attributesFromJson(String(row['attributes']))
  if (attributes !== undefined) return { message: new Message(data, attributes), problem: undefined }
  const message = new Message(data, { id: String(row['id']), type: String(row['type']) })
  return { message, problem: 'its attributes are not a JSON object of strings, numbers and booleans.' }
}

/** Not the driver's own type of bytes, which may be a view of a large shared buffer with methods of its own. */
function bytesOf(value: unknown): Uint8Array {
  if (!(value instanceof Uint8Array)) throw new TypeError('The driver returned a value other than bytes for a binary column.')
  return value.constructor === Uint8Array ? value : new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
}

/**
 * How `append()` writes the source of a record into its attributes. No other part of the JSON can look like that: quotes inside of strings are
 * escaped. Databases find it without parsing the JSON, which may contain values that they refuse, such as half of a surrogate pair. Other writers may
 * put a space after the colon.
 */
export function writtenSource({ source }: OutboxReference): string {
  return `"source":${JSON.stringify(source)}`
}

/** The number of partitions that keys are hashed to. It is part of the stored format: changing it requires a migration. */
export const partitionCount = 256

/** The partition of an ordering key, or of an id if there is no key. FNV-1a, so that every database and every version agrees. */
export function partitionOf(key: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < key.length; index += 1) {
    const unit = key.charCodeAt(index)
    // Most keys are ASCII; allocating bytes for them would cost more than the hash.
    if (unit > 0x7f) return partitionOfBytes(Buffer.from(key))
    hash = Math.imul(hash ^ unit, 0x01000193)
  }
  return fold(hash)
}

function partitionOfBytes(bytes: Uint8Array): number {
  let hash = 0x811c9dc5
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193)
  return fold(hash)
}

function fold(hash: number): number {
  // The low bits of FNV are its weaker ones.
  return ((hash >>> 16) ^ hash) & (partitionCount - 1)
}
