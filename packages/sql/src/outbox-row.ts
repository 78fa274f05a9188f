import { AckordError, type Attributes, missingAttributes, type RawMessage } from '@ackord/core'
import { checkDuration, describeValue, nameOf } from '@ackord/core/internal'
import type { NewOutboxRecord } from '@ackord/outbox'
import { problemOf } from './inbox-key.ts'
import type { Order } from './order.ts'
import { partitionOf } from './partition.ts'

/** What a record is in the table, without what the database adds. */
export interface OutboxRow {
  readonly destination: string
  readonly id: string
  readonly type: string
  readonly contentType: string | null
  readonly orderingKey: string | null
  readonly partition: number
  /** Whether it has a key whose writers wait for each other, so that its rows come in the order of their commits. */
  readonly ordered: boolean
  readonly data: Uint8Array
  /** JSON. */
  readonly attributes: string
  /** Milliseconds. */
  readonly delay: number
}

/** Throws at what could not be stored, before anything is: a statement that fails would take the business writes with it. */
export function outboxRowOf({ destination, message, delay = 0 }: NewOutboxRecord, order: Order = 'none'): OutboxRow {
  const { data } = message
  if (!(data instanceof Uint8Array)) {
    throw invalid(message, `has data that is not bytes but ${describeValue(data)}; marshal() it first`)
  }
  checkText(message, 'destination', destination)
  checkDuration('delay', delay)
  const columns = attributeColumns(message.attributes, message)
  return { destination, data, delay, ordered: order === 'perKey' && columns.orderingKey !== null, ...columns }
}

/** The attributes, and those of them that have a column of their own. */
function attributeColumns(attributes: Attributes, owner: RawMessage): Omit<OutboxRow, 'destination' | 'data' | 'delay' | 'ordered'> {
  const missing = missingAttributes(attributes).filter((name) => name !== 'specversion' || attributes.specversion === '')
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
  const isBytes = (value: unknown): value is Uint8Array => value instanceof Uint8Array
  // A replacer would be asked for every one, and hardly any are bytes.
  const values = Object.values(attributes).some(isBytes)
    ? Object.fromEntries(
        Object.entries(attributes).map(([name, value]) => [name, isBytes(value) ? Buffer.from(value).toString('base64') : value]),
      )
    : attributes
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
  // A loop: it runs for every record that is claimed.
  for (const name in parsed) {
    const kind = typeof (parsed as Record<string, unknown>)[name]
    if (kind !== 'string' && kind !== 'number' && kind !== 'boolean') return undefined
  }
  // Every value was looked at.
  return parsed as Attributes
}

function checkText(message: RawMessage, name: string, value: unknown): void {
  const problem = value === '' && name !== 'partitionkey' ? 'is empty' : problemOf(value)
  if (problem !== undefined) throw invalid(message, `cannot be stored: its ${name} ${problem}`)
}

function invalid(message: RawMessage, problem: string): AckordError {
  const text = `${nameOf(message)} ${problem}.`
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text[0]?.toUpperCase() + text.slice(1))
}
