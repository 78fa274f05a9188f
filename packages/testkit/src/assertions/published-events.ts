import { InvalidOptionError, jsonMarshaler, type RawMessage, textMarshaler } from '@ackord/core'
import { describeValue } from '@ackord/core/internal'
import type { OutboxAdmin, OutboxReader } from '@ackord/outbox'

/** An event that was stored for the relay, or has come to a broker. */
export interface PublishedEvent {
  readonly destination: string
  /** As it is stored or sent. */
  readonly message: RawMessage
}

/**
 * Where a test looks for events.
 *
 * - `{ outbox, transaction }`: in the outbox as the transaction sees it, before it commits
 * - `{ outbox }`: in the outbox, committed, and neither published nor parked
 * - `{ broker, topic }`: at a `MemoryBroker` that has a `history`
 * - a list: what `drain()` of an inline relay gave
 */
export type EventsIn<Transaction> =
  | { readonly outbox: OutboxReader<Transaction>; readonly transaction: Transaction }
  | { readonly outbox: Pick<OutboxAdmin, 'list'>; readonly transaction?: undefined }
  | { readonly broker: { published(topic: string): readonly RawMessage[] }; readonly topic: string }
  | readonly PublishedEvent[]

const pageSize = 500

/** Oldest first. */
export async function readEvents<Transaction>(events: EventsIn<Transaction>): Promise<readonly PublishedEvent[]> {
  if (Array.isArray(events)) return events
  if ('broker' in events) {
    const { broker, topic } = events
    return broker.published(topic).map((message) => ({ destination: topic, message }))
  }
  if ('outbox' in events) return await (isInTransaction(events) ? readInside(events) : readCommitted(events.outbox))
  throw new InvalidOptionError(
    'events',
    `must be { outbox, transaction }, { outbox }, { broker, topic } or a list; it is ${describeValue(events)}.`,
  )
}

/** As JSON or text where it is one, else the bytes. */
export function readData({ data, dataContentType }: RawMessage): unknown {
  const marshaler = [jsonMarshaler, textMarshaler].find(({ accepts }) => dataContentType === undefined || accepts(dataContentType))
  try {
    return marshaler === undefined ? data : marshaler.unmarshal(data, dataContentType)
  } catch {
    return data
  }
}

function isInTransaction<Transaction>(
  events: Exclude<EventsIn<Transaction>, readonly PublishedEvent[]>,
): events is { readonly outbox: OutboxReader<Transaction>; readonly transaction: Transaction } {
  return 'transaction' in events && events.transaction !== undefined
}

async function readInside<Transaction>({ outbox, transaction }: { outbox: OutboxReader<Transaction>; transaction: Transaction }) {
  if (typeof outbox?.readAppended === 'function') return await outbox.readAppended(transaction)
  throw new InvalidOptionError(
    'events.outbox',
    'cannot be read inside of a transaction: it has no readAppended(). On Redis nothing of a transaction can be read before it commits; give { outbox } after the commit.',
  )
}

async function readCommitted(outbox: Pick<OutboxAdmin, 'list'>): Promise<readonly PublishedEvent[]> {
  const found: PublishedEvent[] = []
  let after: string | undefined
  do {
    const page = await outbox.list({}, { limit: pageSize, after })
    found.push(...page.records.filter(({ state }) => state !== 'parked' && state !== 'published'))
    after = page.next
  } while (after !== undefined)
  return found
}
