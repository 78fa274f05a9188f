import { createHash } from 'node:crypto'
import { type AttributeValue, Message, type RawMessage } from '@ackord/core'
import { checkDuration, messageOf } from '@ackord/core/internal'
import { attributesToJson, checkRecordSize, type NewOutboxRecord, type OutboxReference } from '@ackord/outbox'
import { attributesFromJson, checkRecord, toBuffer, toBytes } from '../record-fields.ts'

/** A record as the scripts take it. */
export interface StoredRecord {
  readonly id: string
  readonly lane: string
  readonly destination: string
  /** With order per key: and the digest of the ordering key. */
  readonly print: string
  /** Milliseconds. */
  readonly delay: number
  readonly body: Buffer
}

export interface RecordRules {
  /** The most bytes of a record. */
  readonly maxSize: number
  /** Whether the outbox has order per key. */
  readonly ordered: boolean
}

/** Throws at what could not be read back, before anything is stored. */
export function storedRecord(record: NewOutboxRecord, { maxSize, ordered }: RecordRules): StoredRecord {
  const { destination, message, delay = 0 } = record
  checkRecord(destination, message)
  checkDuration('delay', delay)
  const { source, id } = message.attributes
  const attributes = attributesToJson(message.attributes)
  checkRecordSize(record, attributes, maxSize)
  return {
    id: recordId({ destination, source: source as string, id: id as string }),
    lane: laneOf(destination),
    destination,
    print: ordered ? withKey(printOf(message), message) : printOf(message),
    delay: Math.ceil(delay),
    body: bodyOf(destination, message, attributes),
  }
}

/** As `ackord.parts` takes it apart. */
function withKey(print: string, message: RawMessage): string {
  const key = keyDigest(message)
  return key === '' ? print : `${print}.${key}`
}

/** By which records of an ordering key lie together; empty without one. */
export function keyDigest({ attributes: { partitionkey } }: RawMessage): string {
  return partitionkey === undefined ? '' : digest(String(partitionkey), 12)
}

/** The id of the record with this destination, source and message id. */
export function recordId({ destination, source, id }: OutboxReference): string {
  return digest(JSON.stringify([destination, source, id]), 22)
}

/** `<length>;["destination",{attributes}]` and then the data as it is. The length is that of the JSON, in bytes. */
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
  /** Empty if it cannot be read, and then `problem` says why. */
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

// Few, and asked for with every record.
const lanes = new Map<string, string>()
const mostLanes = 10_000

/** By which records of a destination lie together. */
export function laneOf(destination: string): string {
  const known = lanes.get(destination)
  if (known !== undefined) return known
  if (lanes.size >= mostLanes) lanes.clear()
  const lane = digest(destination, 8)
  lanes.set(destination, lane)
  return lane
}

/** What may differ between two tries to store the same event. */
const volatile: ReadonlySet<string> = new Set(['time', 'traceparent', 'tracestate'])

function printOf({ attributes, data }: RawMessage): string {
  const said: Record<string, AttributeValue> = {}
  for (const name of Object.keys(attributes).sort()) if (!volatile.has(name)) said[name] = attributes[name] as AttributeValue
  return createHash('sha256').update(attributesToJson(said)).update('\0').update(data).digest('base64url').slice(0, 16)
}

function digest(text: string, length: number): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, length)
}
