import type { ClaimOptions, OutboxFilter, Outcome } from '@ackord/outbox'
import type { ClaimedPlace } from './claim-token.ts'
import type { Driver, Row, RunStatement } from './driver.ts'
import type { OutboxRow } from './outbox-row.ts'
import type { OwnershipPort, OwnershipStatements } from './ownership-statements.ts'
import type { Tables } from './tables.ts'

/** What the store's statements run on. */
export interface StorePort {
  readonly driver: Driver<unknown>
  /** The outbox, quoted. */
  readonly table: string
  /** Whether published rows are kept. */
  readonly retain: boolean
}

export interface ClaimRowsOptions extends ClaimOptions {
  /** A UUID that all rows of this claim are leased by. */
  readonly token: string
  /** How many of each destination; `undefined`: a fair share, and half at most of what has failed before. */
  readonly quota: number | undefined
}

export type PlacedOutcome = ClaimedPlace & { readonly outcome: Outcome }

/**
 * The relay's side in the database's own statements. Each call is atomic, and any number of them may run at once. Time is the database's.
 * Rows have the columns `seq`, `state`, `destination`, `id`, `type`, `data`, `attributes`, `attempts`, `created_at` (milliseconds).
 */
export interface ClaimStatements {
  /** Leases rows, with the attempt counted; those of the first call of a claim also tell the `quota` that was used. In any order. */
  claim(options: ClaimRowsOptions): Promise<readonly Row[]>
  /** The seqs whose claim held. Places come sorted by seq, so that no two callers wait for each other in a circle. */
  renew(places: readonly ClaimedPlace[], lease: number): Promise<ReadonlySet<string>>
  release(places: readonly ClaimedPlace[]): Promise<void>
  /** The seqs whose claim held. */
  settle(outcomes: readonly PlacedOutcome[]): Promise<ReadonlySet<string>>
}

/** Which parked rows. */
export type ParkedRows = { readonly ids: readonly string[] } | { readonly filter: OutboxFilter }

/**
 * The operators' side. Rows have the columns of a claim, `shown_state` (a lease and the time that has come included), `last_error` and the
 * instants `available_at`, `lease_until`, `published_at`, `parked_at` (milliseconds).
 */
export interface AdminStatements {
  /** By seq, those after this one. */
  list(filter: OutboxFilter, after: string, limit: number): Promise<readonly Row[]>
  get(seq: string): Promise<Row | undefined>
  /** Makes parked rows ready, no attempts counted; changed to what `edit` gives for each, if there is one. Resolves to how many. */
  rearm(which: ParkedRows, edit: ((row: Row) => OutboxRow) | undefined): Promise<number>
  /** Deletes parked rows. Resolves to their `seq`, `id` and `type`. */
  discard(ids: readonly string[]): Promise<readonly Row[]>
  /** By destination and shown state: `destination`, `shown_state`, `count`, and the `age` of the oldest in milliseconds. */
  stats(): Promise<readonly Row[]>
  /** Deletes published rows that are older than so many milliseconds. Skips what another cleanup has locked. */
  deletePublished(olderThan: number, limit: number): Promise<number>
}

export interface Migration {
  /** What the tables are afterwards. */
  readonly version: number
  /** The oldest version of this code that can still work with them, so that a deployment may roll. */
  readonly oldestReader: number
  readonly sql: (tables: Tables) => string
}

/** What a database needs to make its tables. */
export interface SchemaStatements {
  /** Looks at the server first, and throws at one that is too old. Absent where every one will do. */
  check?(run: RunStatement): Promise<void>
  /** Oldest first; the version of the last is the one this code works with. */
  readonly migrations: readonly Migration[]
  /** Whether the last statement of a migration failed because one that was cut off has carried it out. Absent where a transaction holds the whole. */
  isThere?(error: unknown): boolean
  /** The table of versions, if it is not there. One row per installation. */
  meta(tables: Tables): string
  /** Writes the version. */
  setVersion(tables: Tables, version: number, oldestReader: number): string
  /** Keeps other migrations of these tables out, on this connection, until the end of the transaction or `unlock`. */
  lock(tables: Tables): readonly string[]
  /** After the work, also when it failed; none where the end of the transaction does it. */
  unlock(tables: Tables): readonly string[]
  /** Makes the namespace, if there is one and it is not there. */
  namespace(tables: Tables): { readonly exists: string; readonly create: string } | undefined
}

/** What the outbox store, the schema and the cleanup of a database are made of. */
export interface StoreDialect {
  readonly schema: SchemaStatements
  claims(port: StorePort): ClaimStatements
  /** Absent where there is no order per key. */
  ownership?(port: OwnershipPort): OwnershipStatements
  administration(port: StorePort): AdminStatements
  /** Forgets messages that were received longer ago than the window, a bounded number. Resolves to how many. */
  cleanInbox(driver: Driver<unknown>, table: string, options: { readonly window: number; readonly limit: number }): Promise<number>
  /** Whether the turn to do this is the caller's: `true` for one caller at most in each interval, by the database's clock. `meta` is that table, quoted. */
  takeTurn(driver: Driver<unknown>, meta: string, turn: { readonly name: string; readonly interval: number }): Promise<boolean>
  /** Whether a connection of the user's own, whose driver does not tell, is in a transaction. */
  inTransaction(driver: Driver<unknown>, handle: unknown): Promise<boolean>
}
