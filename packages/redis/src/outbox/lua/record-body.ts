import { createHash } from 'node:crypto'
import { type AttributeValue, Message, type RawMessage } from '@ackord/core'
import { checkDuration, messageOf } from '@ackord/core/internal'
import { attributesToJson, checkRecordSize, type NewOutboxRecord, type OutboxReference } from '@ackord/outbox'
import { toBuffer } from '../../client/argument.ts'
import { attributesFromJson, checkRecord, toBytes } from '../record-fields.ts'

/** A record as an argument of the scripts. */
export interface StoredRecord {
  readonly id: string
  readonly destinationHash: string
  readonly destination: string
  /** With order per key followed by the digest of the ordering key. */
  readonly print: string
  /** Milliseconds. */
  readonly delay: number
  readonly body: Buffer
  /** Destination and source: with a message id they are the record's id. */
  readonly origin: string
}

export interface RecordRules {
  /** The maximum size of a record in bytes. */
  readonly maxSize: number
  /** Whether the outbox has order per key. */
  readonly ordered: boolean
}

/** Throws if the record could not be read back, before anything is stored. */
export function storedRecord(record: NewOutboxRecord, { maxSize, ordered }: RecordRules): StoredRecord {
  const { destination, message, delay = 0 } = record
  checkRecord(destination, message)
  checkDuration('delay', delay)
  const { source, id } = message.attributes
  const attributes = attributesToJson(message.attributes)
  checkRecordSize(record, attributes, maxSize)
  return {
    id: recordId({ destination, source: source as string, id: id as string }),
    destinationHash: hashDestination(destination),
    destination,
    print: ordered ? withKey(printOf(message), message) : printOf(message),
    delay: Math.ceil(delay),
    body: bodyOf(destination, message, attributes),
    origin: originOf(destination, source as string),
  }
}

/** The form that `ackord.parts` splits. */
function withKey(print: string, message: RawMessage): string {
  const key = keyDigest(message)
  return key === '' ? print : `${print}.${key}`
}

/** The digest of the ordering key; empty without one. */
export function keyDigest({ attributes: { partitionkey } }: RawMessage): string {
  return partitionkey === undefined ? '' : digest(String(partitionkey), 12)
}

/** The id of the record with this destination, source and message id. */
export function recordId({ destination, source, id }: OutboxReference): string {
  return digest(JSON.stringify([destination, source, id]), 22)
}

export function originOf(destination: string, source: string): string {
  return JSON.stringify([destination, source])
}

/** The id of the record with this origin and message id. */
export function recordIdAt(origin: string, id: string): string {
  const [destination = '', source = ''] = JSON.parse(origin) as readonly string[]
  return recordId({ destination, source, id })
}

/** `<length>;["destination",{attributes}]`, then the data as it is. The length is that of the JSON, in bytes. */
export function bodyOf(
  destination: string,
  { attributes, data }: RawMessage,
  attributesJson: string = attributesToJson(attributes),
): Buffer {
  const json = Buffer.from(`[${JSON.stringify(destination)},${attributesJson}]`)
  return Buffer.concat([Buffer.from(`${json.length};`), json, toBuffer(data)])
}

export interface ReadBody {
  readonly destination: string
  /** Empty if the body cannot be read; `problem` says why. */
  readonly message: RawMessage
  readonly problem: string | undefined
}

export function readBody(body: Buffer): ReadBody {
  try {
    const semicolon = body.indexOf(';')
    const length = Number(body.toString('latin1', 0, Math.max(0, semicolon)))
    if (semicolon < 1 || !Number.isSafeInteger(length) || semicolon + 1 + length > body.length) {
      throw new Error('it does not begin with the length of its attributes.')
    }
    const end = semicolon + 1 + length
    const parsed: unknown = JSON.parse(body.toString('utf8', semicolon + 1, end))
    if (!Array.isArray(parsed) || typeof parsed[0] !== 'string') throw new Error('it has no destination.')
    return { destination: parsed[0], message: new Message(toBytes(body.subarray(end)), attributesFromJson(parsed[1])), problem: undefined }
  } catch (error) {
    const problem = `It cannot be read: ${error instanceof Error ? messageOf(error) : String(error)}`
    return { destination: '', message: new Message(new Uint8Array(), {}), problem }
  }
}

// There are few destinations, and the hash is needed for every record.
const destinationHashes = new Map<string, string>()
const maxHashes = 10_000

/** The digest by which the records of a destination are sorted. */
export function hashDestination(destination: string): string {
  const known = destinationHashes.get(destination)
  if (known !== undefined) return known
  if (destinationHashes.size >= maxHashes) destinationHashes.clear()
  const destinationHash = digest(destination, 8)
  destinationHashes.set(destination, destinationHash)
  return destinationHash
}

/** Attributes that may differ between two attempts to store the same event. */
const volatile: ReadonlySet<string> = new Set(['time', 'traceparent', 'tracestate'])

function printOf({ attributes, data }: RawMessage): string {
  const said: Record<string, AttributeValue> = {}
  for (const name of Object.keys(attributes).sort()) if (!volatile.has(name)) said[name] = attributes[name] as AttributeValue
  const content = createHash('sha256').update(attributesToJson(said)).update('\0')
  // `encrypted()` makes other bytes of the same event each time. A digest of the plain text would outlive a forgotten key.
  if (attributes[encryptedMark] === undefined) content.update(data)
  return content.digest('base64url').slice(0, 16)
}

const encryptedMark = 'ackordencrypted'

function digest(text: string, length: number): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, length)
}
