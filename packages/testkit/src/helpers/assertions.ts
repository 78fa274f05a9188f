import { AssertionError } from 'node:assert'
import { type Attributes, InvalidOptionError, jsonMarshaler, type RawMessage, textMarshaler } from '@ackord/core'
import { checkCount, describeValue } from '@ackord/core/internal'
import type { OutboxAdmin, OutboxReader } from '@ackord/outbox'

export interface AssertPublishedOptions {
  /** The expected number of events. Default: 1. */
  readonly times?: number | undefined
}

/**
 * Fails unless exactly one event matches, or as many as `times` says. Returns the events that match. With a transaction, the outbox is
 * read before the commit, so that a test can roll back:
 *
 *     await assertPublished({ outbox, transaction }, { type: 'order.placed', data: { orderId: 'o-1' } })
 */
export async function assertPublished<Transaction>(
  events: EventsIn<Transaction>,
  expected: ExpectedEvent,
  options: AssertPublishedOptions = {},
): Promise<readonly PublishedEvent[]> {
  const { times = 1 } = options
  checkCount('times', times)
  const all = await readEvents(events)
  const found = all.filter((event) => isExpected(event, expected))
  if (found.length === times) return found
  const wanted = times === 1 ? `${describeExpected(expected)}` : `${times} times ${describeExpected(expected)}`
  throw failure(`Expected ${wanted}; ${found.length} of ${all.length} are so.`, all, expected)
}

/** Fails if an event matches the description; without a description, if there is any event. */
export async function assertNothingPublished<Transaction>(events: EventsIn<Transaction>, unexpected: ExpectedEvent = {}): Promise<void> {
  const found = (await readEvents(events)).filter((event) => isExpected(event, unexpected))
  if (found.length === 0) return
  throw failure(`Expected no event like this: ${describeExpected(unexpected)}; ${found.length} are there.`, found, [])
}

function failure(text: string, events: readonly PublishedEvent[], expected: unknown): AssertionError {
  const shown = events.slice(0, 20).map((event) => `  ${describeEvent(event)}`)
  const more = events.length > shown.length ? [`  … and ${events.length - shown.length} more`] : []
  const list = shown.length === 0 ? ['There are no events.'] : ['There are:', ...shown, ...more]
  const actual = events.map(describeEvent)
  return new AssertionError({ message: [text, ...list].join('\n'), actual, expected, operator: 'assertPublished' })
}

/** Describes an event. All given properties must match; others are ignored. */
export interface ExpectedEvent {
  readonly type?: string | undefined
  readonly id?: string | undefined
  readonly destination?: string | undefined
  /** A subset of its attributes, such as `partitionkey`. */
  readonly attributes?: Attributes | undefined
  /**
   * A subset of the data at any depth; arrays must have all their elements. Matchers of vitest and jest (`expect.any(String)`) are allowed anywhere.
   * Data that is neither JSON nor text is compared as bytes.
   */
  readonly data?: unknown
}

function isExpected(event: PublishedEvent, expected: ExpectedEvent): boolean {
  const { destination, message } = event
  const { attributes } = message
  const wanted = { type: expected.type, id: expected.id, ...expected.attributes }
  return (
    (expected.destination === undefined || destination === expected.destination) &&
    Object.entries(wanted).every(([name, value]) => value === undefined || contains(attributes[name], value)) &&
    (!('data' in expected) || contains(readData(message), expected.data))
  )
}

/** Whether `actual` equals `expected`, apart from properties that `expected` does not have. */
function contains(actual: unknown, expected: unknown): boolean {
  if (isMatcher(expected)) return expected.asymmetricMatch(actual)
  if (expected instanceof Uint8Array) return actual instanceof Uint8Array && Buffer.compare(actual, expected) === 0
  if (typeof expected !== 'object' || expected === null) return Object.is(actual, expected)
  if (typeof actual !== 'object' || actual === null || Array.isArray(actual) !== Array.isArray(expected)) return false
  if (Array.isArray(expected) && (actual as unknown[]).length !== expected.length) return false
  return Object.entries(expected).every(([name, value]) => contains((actual as Record<string, unknown>)[name], value))
}

function isMatcher(value: unknown): value is { asymmetricMatch(actual: unknown): boolean } {
  return typeof value === 'object' && value !== null && 'asymmetricMatch' in value && typeof value.asymmetricMatch === 'function'
}

/** For failure messages. Includes the data, because only tests print it. */
export function describeEvent({ destination, message }: PublishedEvent): string {
  const { partitionkey } = message.attributes
  const key = partitionkey === undefined ? '' : `, key '${partitionkey}'`
  return `${message.type} '${message.id}' to '${destination}'${key}: ${shownData(message)}`
}

function describeExpected({ data, ...named }: ExpectedEvent): string {
  const known = Object.entries(named).filter(([, value]) => value !== undefined)
  const parts = known.map(([name, value]) => `${name} ${JSON.stringify(value)}`)
  if (data !== undefined) parts.push(`data with ${JSON.stringify(data)}`)
  return parts.length === 0 ? 'any event' : `an event with ${parts.join(', ')}`
}

function shownData(message: PublishedEvent['message']): string {
  const data = readData(message)
  return data instanceof Uint8Array ? `${data.byteLength} bytes` : (JSON.stringify(data) ?? 'no data')
}

/** An event that was stored for the relay or has arrived at a broker. */
export interface PublishedEvent {
  readonly destination: string
  /** As it is stored or sent. */
  readonly message: RawMessage
}

/**
 * Where to look for events.
 *
 * - `{ outbox, transaction }`: in the outbox as the transaction sees it, before it commits
 * - `{ outbox }`: in the outbox, committed, and neither published nor parked
 * - `{ broker, topic }`: at a `MemoryBroker` that has a `history`
 * - an array: the result of `drain()` of an inline relay
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

/** The parsed JSON or the text if the data is one of them, otherwise the bytes. */
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
