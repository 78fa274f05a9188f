import { type Attributes, Message } from '@ackord/core'
import {
  type Claim,
  type ClaimOptions,
  invalidCursor,
  type NewOutboxRecord,
  type OutboxEdit,
  type OutboxFilter,
  type OutboxReference,
  type OutboxState,
  type Outcome,
  type RearmOptions,
} from '@ackord/outbox'

/** A record as `RuledOutboxStore` keeps it. */
export interface RuledRow {
  readonly place: number
  readonly createdAt: number
  destination: string
  data: Uint8Array
  attributes: Attributes
  status: 'pending' | 'parked' | 'published'
  attempts: number
  availableAt: number
  token: string | undefined
  leasedUntil: number
  lastError: string | undefined
  publishedAt: number | undefined
  parkedAt: number | undefined
}

/** Every promise of the outbox contracts as a function of its own, so that a mutant can break exactly one. */
export interface OutboxRules {
  /** Where records go that are appended: to the transaction, which may be rolled back. */
  readonly appendsInTransaction: boolean
  readonly refusesEndedTransactions: boolean
  /** What cannot be stored is found before anything is. */
  readonly appendsWhole: boolean
  readonly honoursSavepoints: boolean
  readonly sharesData: boolean
  /** What is stored of a record. */
  readonly store: (record: NewOutboxRecord) => NewOutboxRecord
  readonly storeAll: (records: readonly NewOutboxRecord[], place: number) => readonly NewOutboxRecord[]
  /** The rows that a claim looks at, in its order. */
  readonly scan: (rows: readonly RuledRow[]) => readonly RuledRow[]
  readonly isAvailable: (row: RuledRow, now: number) => boolean
  readonly isLeased: (row: RuledRow, now: number) => boolean
  readonly isPending: (row: RuledRow, now: number) => boolean
  readonly selects: (row: RuledRow, options: ClaimOptions) => boolean
  readonly limit: (limit: number) => number
  /** Of the rows that a claim found, those that it takes. */
  readonly bounds: (rows: readonly RuledRow[], maxBytes: number) => readonly RuledRow[]
  /** Between finding rows and taking them: where there is a gap, others find them too. */
  readonly takesAtOnce: boolean
  readonly token: (next: () => string) => string
  readonly countAttempt: (row: RuledRow, takenOver: boolean) => number
  readonly holds: (row: RuledRow, claim: Claim, now: number, call: 'renew' | 'release' | 'settle') => boolean
  /** Whether a call reaches every row with the token, whatever the id. */
  readonly actsOnToken: boolean
  readonly renew: (row: RuledRow, until: number) => void
  readonly release: (row: RuledRow) => void
  readonly settle: (row: RuledRow, outcome: Outcome, now: number) => void
  readonly refusesEmptyLists: boolean
  readonly answers: <T>(answers: readonly T[]) => readonly T[]
  readonly isRearmed: (
    row: RuledRow,
    filter: OutboxFilter | undefined,
    matches: (filter: OutboxFilter) => boolean,
    options: RearmOptions,
  ) => boolean
  readonly rearm: (row: RuledRow, edit: OutboxEdit, now: number, options: RearmOptions) => void
  readonly isParked: (row: RuledRow, state: OutboxState) => boolean
  readonly park: (row: RuledRow, reason: string, now: number) => void
  /** Whether one of these references means the record. */
  readonly isNamed: (destination: string, attributes: Attributes, references: readonly OutboxReference[]) => boolean
  /** Whether `cancel` removes it. */
  readonly isCancelled: (row: RuledRow, state: OutboxState) => boolean
  readonly cancelsInTransaction: boolean
  /** Whether `cancel` sees what its own transaction has appended. */
  readonly cancelsOwn: boolean
  readonly cancelCount: (count: number) => number
  readonly isDiscarded: (row: RuledRow) => boolean
  readonly isDeleted: (row: RuledRow, before: number) => boolean
  readonly deletes: (limit: number) => number
  readonly matches: (row: RuledRow, state: OutboxState, filter: OutboxFilter) => boolean
  readonly sort: (rows: readonly RuledRow[]) => readonly RuledRow[]
  readonly page: (rows: readonly RuledRow[], after: string | undefined) => readonly RuledRow[]
  readonly show: (row: RuledRow) => Message<Uint8Array>
  readonly missing: () => undefined
  readonly counts: (state: OutboxState) => OutboxState
  readonly ages: (row: RuledRow) => boolean
  readonly endsWakeUps: boolean
}

export const outboxRules: OutboxRules = {
  appendsInTransaction: true,
  refusesEndedTransactions: true,
  appendsWhole: true,
  honoursSavepoints: true,
  sharesData: true,
  store: (record) => record,
  storeAll: (records) => records,
  scan: (rows) => rows,
  isAvailable: (row, now) => row.availableAt <= now,
  isLeased: (row, now) => row.token !== undefined && row.leasedUntil > now,
  isPending: (row) => row.status === 'pending',
  selects: (row, { destinations, except, retried }) =>
    destinations?.includes(row.destination) !== false &&
    except?.includes(row.destination) !== true &&
    (retried === undefined || (retried === 'only') === row.attempts > 0),
  limit: (limit) => limit,
  bounds: (rows, maxBytes) => withinBytes(rows, maxBytes, bytesOf),
  takesAtOnce: true,
  token: (next) => next(),
  countAttempt: (row) => row.attempts + 1,
  holds: (row, { token }, now) => row.token === token && row.leasedUntil > now,
  actsOnToken: false,
  renew(row, until) {
    row.leasedUntil = until
  },
  release(row) {
    row.attempts -= 1
    row.token = undefined
  },
  settle(row, outcome, now) {
    row.token = undefined
    if (outcome.result === 'published') Object.assign(row, { status: 'published', publishedAt: now })
    else row.lastError = outcome.error
    if (outcome.result === 'parked') Object.assign(row, { status: 'parked', parkedAt: now })
    if (outcome.result === 'failed') row.availableAt = now + outcome.retryAfter
  },
  refusesEmptyLists: false,
  answers: (answers) => answers,
  isRearmed: (row, filter, matches, { state = 'parked' }) => row.status === state && (filter === undefined || matches(filter)),
  rearm(row, edit, now, { delay = 0, keepAttempts = false }) {
    const attempts = keepAttempts ? row.attempts : 0
    Object.assign(row, { status: 'pending', attempts, availableAt: now + delay, parkedAt: undefined, publishedAt: undefined })
    row.destination = edit.destination ?? row.destination
    row.data = edit.data ?? row.data
    row.attributes = { ...row.attributes, ...edit.attributes }
  },
  isParked: (_, state) => state === 'ready' || state === 'waiting',
  park(row, reason, now) {
    Object.assign(row, { status: 'parked', parkedAt: now, lastError: reason, token: undefined })
  },
  isNamed: (destination, { source, id }, references) =>
    references.some((one) => one.destination === destination && one.source === source && one.id === id),
  isCancelled: (_, state) => state === 'waiting',
  cancelsInTransaction: true,
  cancelsOwn: true,
  cancelCount: (count) => count,
  isDiscarded: (row) => row.status === 'parked',
  isDeleted: (row, before) => row.publishedAt !== undefined && row.publishedAt <= before,
  deletes: (limit) => limit,
  matches: (row, state, filter) =>
    (filter.state === undefined || filter.state === state) &&
    (filter.destination === undefined || filter.destination === row.destination) &&
    (filter.type === undefined || filter.type === row.attributes.type) &&
    (filter.orderingKey === undefined || filter.orderingKey === row.attributes['partitionkey']),
  sort: (rows) => rows,
  page(rows, after) {
    if (after === undefined) return rows
    if (!/^[1-9]\d*$/.test(after)) throw invalidCursor(after)
    return rows.filter((row) => row.place > Number(after))
  },
  show: (row) => new Message(row.data, row.attributes),
  missing: () => undefined,
  counts: (state) => state,
  ages: (row) => row.status === 'pending',
  endsWakeUps: true,
}

/** The bytes of a row, as `ClaimOptions.maxBytes` counts them. */
export function bytesOf({ data, attributes }: RuledRow): number {
  return data.byteLength + Buffer.byteLength(JSON.stringify(attributes))
}

/** The first rows that fit, and the first one in any case. */
export function withinBytes(rows: readonly RuledRow[], maxBytes: number, sizeOf: (row: RuledRow) => number): readonly RuledRow[] {
  let bytes = 0
  const end = rows.findIndex((row, index) => {
    bytes += sizeOf(row)
    return index > 0 && bytes > maxBytes
  })
  return end === -1 ? rows : rows.slice(0, end)
}
