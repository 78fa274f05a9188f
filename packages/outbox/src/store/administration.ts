import { type Attributes, InvalidOptionError, type Logger, type RawMessage } from '@ackord/core'
import { checkAttributes } from '@ackord/core/broker'
import { checkCount, describeMessage } from '@ackord/core/internal'
import type { DestinationStats, OutboxAdmin, OutboxEdit, OutboxFilter, OutboxRecord, OutboxState, OutboxStats } from './outbox-admin.ts'

// The parts of `OutboxAdmin` that all stores share.

/** The fields of a record that a filter reads. */
export interface FilteredRecord extends Pick<OutboxRecord, 'state' | 'destination' | 'createdAt' | 'lastError' | 'cause'> {
  readonly attributes: Attributes
  readonly parkedAt?: number | undefined
}

/** Whether a record matches all criteria of the filter. For stores that filter records themselves. */
export function matchesFilter(record: FilteredRecord, filter: OutboxFilter, now: number): boolean {
  const { state, destination, type, orderingKey, messageId, cause, error, minAge = 0, maxAge = Infinity, minParkedAge } = filter
  const { partitionkey } = record.attributes
  const age = now - record.createdAt
  return (
    (state === undefined || state === record.state) &&
    (destination === undefined || destination === record.destination) &&
    (type === undefined || type === record.attributes.type) &&
    (messageId === undefined || messageId === record.attributes.id) &&
    (orderingKey === undefined || (partitionkey !== undefined && orderingKey === String(partitionkey))) &&
    (cause === undefined || cause === record.cause) &&
    (error === undefined || record.lastError?.toLowerCase().includes(error.toLowerCase()) === true) &&
    age >= minAge &&
    age <= maxAge &&
    (minParkedAge === undefined || (record.parkedAt !== undefined && now - record.parkedAt >= minParkedAge))
  )
}

/** Whether `rearm()` leaves the content of the records as it is. */
export function isEmptyEdit({ destination, attributes, data }: OutboxEdit): boolean {
  return destination === undefined && attributes === undefined && data === undefined
}

/**
 * The message with the changes of an edit. Throws if the result could not be read back: it would be parked again, for another reason, or rejected by its reader.
 */
export function editMessage(message: RawMessage, { attributes, data }: OutboxEdit): RawMessage {
  const edited = message.copy(data ?? message.data).withAttributes(attributes ?? {})
  checkAttributes(edited.attributes, () => describeMessage(edited))
  checkEncoded(message, edited)
  return edited
}

/** The attributes by which `encrypted()` and `claimCheck()` recognise the messages that they have encoded. */
const codecMarks = ['ackordencrypted', 'ackordclaimcheck']

/** The attribute by which a codec recognises the message that it has encoded; `undefined` if none has. */
export function codecMarkOf({ attributes }: RawMessage): string | undefined {
  return codecMarks.find((name) => attributes[name] !== undefined)
}

/** Encoded data belongs to the id, source and type, and is of no use without the mark of the codec. */
function checkEncoded(message: RawMessage, edited: RawMessage): void {
  const mark = codecMarkOf(message)
  if (mark === undefined) return
  const sameData = Buffer.compare(edited.data, message.data) === 0
  const changed = (['id', 'source', 'type', ...codecMarks] as const).find((name) => edited.attributes[name] !== message.attributes[name])
  if (sameData && changed === undefined) return
  if (!sameData && codecMarks.every((name) => edited.attributes[name] === undefined)) return
  const what = sameData ? `${changed} of ${describeMessage(message)}` : `data of ${describeMessage(message)}`
  throw new InvalidOptionError(
    'edit',
    `must not change the ${what}: a codec has encoded the message (attribute '${mark}'), and its reader would reject it. Replace its data by data that is not encoded, and remove that attribute.`,
  )
}

/** Adds up the numbers of `stats()`, up to its `limit`. A destination may be added several times, from several places. */
export class StatsSum {
  readonly #limit: number
  readonly #destinations = new Map<string, { -readonly [Name in keyof DestinationStats]: DestinationStats[Name] }>()
  #oldestAge: number | undefined

  constructor(limit: number = Infinity) {
    this.#limit = limit === Infinity ? limit : checkCount('limit', limit)
  }

  /** `age`: milliseconds since a record of this destination that is neither parked nor published was stored; `undefined` if there is none. */
  add(destination: string, counts: { readonly [State in OutboxState]?: number | undefined }, age: number | undefined): void {
    const sum = this.#destinations.get(destination) ?? { destination, ...noRecords }
    this.#destinations.set(destination, sum)
    for (const state of states) {
      sum[state] += counts[state] ?? 0
      if (sum[state] < this.#limit) continue
      sum[state] = this.#limit
      sum.capped = true
    }
    if (age === undefined) return
    sum.oldestAge = Math.max(sum.oldestAge ?? 0, age)
    this.addAge(age)
  }

  /** For a record whose destination is unknown. */
  addAge(age: number): void {
    this.#oldestAge = Math.max(this.#oldestAge ?? 0, age)
  }

  get stats(): OutboxStats {
    return { destinations: [...this.#destinations.values()], oldestAge: this.#oldestAge }
  }
}

const noRecords = { ready: 0, waiting: 0, leased: 0, parked: 0, published: 0, oldestAge: undefined }

const states: readonly OutboxState[] = ['ready', 'waiting', 'leased', 'parked', 'published']

/** Logs the actions of operators. Actions without an effect are not logged. `fields`: which outbox it is. */
export class OperatorLog {
  readonly #logger: Logger
  readonly #fields: Readonly<Record<string, unknown>>

  constructor(logger: Logger, fields: Readonly<Record<string, unknown>> = {}) {
    this.#logger = logger
    this.#fields = fields
  }

  rearmed(count: number, state: OutboxState, which: Parameters<OutboxAdmin['rearm']>[0], edit: OutboxEdit): void {
    if (count === 0) return
    const fields = { ...this.#fields, count, state, ...which, edited: Object.keys(edit) }
    this.#logger.info(fields, 'Outbox records were made ready again.')
  }

  parked(parked: readonly unknown[], reason: string): void {
    if (parked.length > 0) this.#logger.info({ ...this.#fields, reason, parked }, 'An operator parked outbox records.')
  }

  forgotten(forgotten: readonly unknown[]): void {
    if (forgotten.length > 0) this.#logger.info({ ...this.#fields, forgotten }, 'An operator deleted inbox entries.')
  }

  discarded(discarded: readonly unknown[], reason: string): void {
    if (discarded.length > 0) this.#logger.info({ ...this.#fields, reason, discarded }, 'Parked outbox records were discarded.')
  }

  cancelled(cancelled: readonly unknown[], reason: string): void {
    if (cancelled.length > 0)
      this.#logger.info({ ...this.#fields, reason, cancelled }, 'An operator cancelled outbox records before they were due.')
  }
}
