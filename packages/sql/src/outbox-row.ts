import { AckordError, type Attributes, missingAttributes, type RawMessage } from '@ackord/core'
import { checkDuration, describeValue, nameOf } from '@ackord/core/internal'
import type { NewOutboxRecord } from '@ackord/outbox'
import { problemOf } from './inbox-key.ts'
import { partitionOf } from './partition.ts'

/** What a record is in the table, without what the database adds. */
export interface OutboxRow {
  readonly destination: string
  readonly id: string
  readonly type: string
  readonly contentType: string | null
  readonly orderingKey: string | null
  readonly partition: number
  readonly data: Uint8Array
  /** JSON. */
  readonly attributes: string
  /** Milliseconds. */
  readonly delay: number
}

/** Throws at what could not be stored, before anything is: a statement that fails would take the business writes with it. */
export function outboxRowOf({ destination, message, delay = 0 }: NewOutboxRecord): OutboxRow {
  const { data } = message
  if (!(data instanceof Uint8Array)) {
    throw invalid(message, `has data that is not bytes but ${describeValue(data)}; marshal() it first`)
  }
  checkText(message, 'destination', destination)
  checkDuration('delay', delay)
  return { destination, data, delay, ...attributeColumns(message.attributes, message) }
}

/** The attributes, and those of them that have a column of their own. */
function attributeColumns(attributes: Attributes, owner: RawMessage): Omit<OutboxRow, 'destination' | 'data' | 'delay'> {
  const missing = missingAttributes({ specversion: '1.0', ...attributes })
  if (missing.length > 0) {
    throw new AckordError('ACKORD_MISSING_ATTRIBUTE', `Cannot store ${nameOf(owner)} in the outbox: it has no ${missing.join(', no ')}.`)
  }
  const { id = '', type = '', datacontenttype, partitionkey } = attributes
  checkText(owner, 'id', id)
  checkText(owner, 'type', type)
  if (datacontenttype !== undefined) checkText(owner, 'datacontenttype', datacontenttype)
  if (partitionkey !== undefined) checkText(owner, 'partitionkey', partitionkey)
  return {
    id,
    type,
    contentType: datacontenttype ?? null,
    orderingKey: partitionkey ?? null,
    partition: partitionOf(partitionkey ?? id),
    attributes: attributesToJson(attributes),
  }
}

/** As CloudEvents has them in JSON: instants as RFC 3339, bytes as base64. */
function attributesToJson(attributes: Attributes): string {
  const values: Record<string, unknown> = {}
  for (const name in attributes) {
    const value = attributes[name]
    values[name] = value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value
  }
  return JSON.stringify(values)
}

/** `undefined` if it is not what `attributesToJson` writes. */
export function attributesFromJson(json: string): Attributes | undefined {
  let parsed: unknown
  try {
    parsed = JSON.parse(json)
  } catch {
    return undefined
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return undefined
  const plain = Object.values(parsed).every((value) => ['string', 'number', 'boolean'].includes(typeof value))
  // Every value was looked at.
  return plain ? (parsed as Attributes) : undefined
}

function checkText(message: RawMessage, name: string, value: unknown): void {
  const problem = value === '' && name !== 'partitionkey' ? 'is empty' : problemOf(value)
  if (problem !== undefined) throw invalid(message, `cannot be stored: its ${name} ${problem}`)
}

function invalid(message: RawMessage, problem: string): AckordError {
  const text = `${nameOf(message)} ${problem}.`
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text[0]?.toUpperCase() + text.slice(1))
}
