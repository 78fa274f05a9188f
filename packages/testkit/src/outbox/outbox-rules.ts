import { type Attributes, Message } from '@ackord/core'
import {
  type Claim,
  type ClaimOptions,
  invalidCursor,
  type NewOutboxRecord,
  type OutboxEdit,
  type OutboxFilter,
  type OutboxState,
  type Outcome,
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
  readonly isRearmed: (row: RuledRow, filter: OutboxFilter | undefined, matches: (filter: OutboxFilter) => boolean) => boolean
  readonly rearm: (row: RuledRow, edit: OutboxEdit, now: number) => void
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
  isRearmed: (row, filter, matches) => row.status === 'parked' && (filter === undefined || matches(filter)),
  rearm(row, edit, now) {
    Object.assign(row, { status: 'pending', attempts: 0, availableAt: now, parkedAt: undefined })
    row.destination = edit.destination ?? row.destination
    row.data = edit.data ?? row.data
    row.attributes = { ...row.attributes, ...edit.attributes }
  },
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
