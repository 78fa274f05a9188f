import type {
  ClaimOptions,
  IdempotencyKey,
  InboxQuery,
  Note,
  NoteQuery,
  OutboxFilter,
  OutboxReference,
  Outcome,
  ProcessChange,
  ProcessKey,
  RearmOptions,
} from '@ackord/outbox'
import type { RowKey } from '../records/claim-bytes.ts'
import type { ClaimedRowKey } from '../records/claimed-record.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { Row } from '../records/row.ts'
import type { Driver, RunStatement, Statement } from './driver.ts'
import type { LogStatements } from './log-statements.ts'
import type { OwnershipStatements } from './ownership-statements.ts'
import type { Tables } from './tables.ts'

/** The connection and table that the statements of a store use. */
export interface StorePort {
  readonly driver: Driver<unknown>
  /** The outbox table, quoted. */
  readonly table: string
  /** Whether published rows are kept. */
  readonly retain: boolean
  /**
   * Whether the table has the columns `cause` and `history`, which version 4 added. It may read the version of the tables, so it is not called to settle
   * published records.
   */
  readonly keepsFailures: () => Promise<boolean>
}

export interface ClaimRowsOptions extends ClaimOptions {
  /** The UUID under which all rows of this claim are leased. */
  readonly token: string
  /** The maximum per destination; `undefined`: a fair share, of which at most half is for records that have failed before. */
  readonly quota: number | undefined
  /**
   * Bytes that this claim has used so far; `maxBytes` applies to the whole claim. The first row is claimed regardless of its size only if this is 0.
   */
  readonly spent: number
}

export type ClaimedOutcome = ClaimedRowKey & { readonly outcome: Outcome }

/**
 * The relay's statements. Each call is atomic and safe to run concurrently. All times are the database's. Rows have the columns `seq`, `state`,
 * `destination`, `id`, `type`, `data`, `attributes`, `attempts`, `created_at` and `age` (milliseconds).
 */
export interface ClaimStatements {
  /**
   * Leases rows and counts the attempt; rows of the first call of a claim also contain the `quota` that was used. In any order. Where `data` is null,
   * the row is too large to be read before the attempt is committed: `contents` returns it.
   */
  claim(options: ClaimRowsOptions): Promise<readonly Row[]>
  /** The columns `seq`, `data` and `attributes` of rows, by key. */
  contents(keys: readonly RowKey[]): Promise<readonly Row[]>
  /** Resolves to the seqs whose claim was still valid. Rows must be sorted by seq, so that no two callers deadlock. */
  renew(rows: readonly ClaimedRowKey[], lease: number): Promise<ReadonlySet<string>>
  release(rows: readonly ClaimedRowKey[]): Promise<void>
  /** Resolves to the seqs whose claim was still valid. */
  settle(outcomes: readonly ClaimedOutcome[]): Promise<ReadonlySet<string>>
}

/** The rows to re-arm or to discard. */
export type ChosenRows = { readonly ids: readonly string[] } | { readonly filter: OutboxFilter }

/** Rows with counts, and the number of statements that they took. */
export interface CountedRows {
  readonly rows: readonly Row[]
  readonly requests: number
}

/**
 * The operators' statements. Rows have the columns of a claim without `age`, and in addition `shown_state` (which takes leases and due times into
 * account), `last_error`, the instants `available_at`, `lease_until`, `published_at`, `parked_at` (milliseconds) and, if the table has it, `cause`. In a
 * table without that column, a filter by cause matches nothing.
 */
export interface AdminStatements {
  /** Rows after this seq, ordered by seq. */
  list(filter: OutboxFilter, page: ListedPage): Promise<ListedRows>
  get(seq: string): Promise<Row | undefined>
  /** The column `history` of a row; no row where the table has no such column. */
  history(seq: string): Promise<Row | undefined>
  /**
   * Makes parked or published rows ready, or waiting if there is a delay, and replaces each with the result of `edit`, if given. Resolves to the
   * number of rows.
   */
  rearm(which: ChosenRows, edit: ((row: Row) => OutboxRow) | undefined, options: Rearm): Promise<number>
  /** Parks rows that are ready or waiting and not leased. Resolves to their `seq`, `id` and `type`. */
  park(ids: readonly string[], reason: string, cause: string): Promise<readonly Row[]>
  /** Deletes parked rows. Resolves to their `seq`, `id` and `type`. */
  discard(ids: readonly string[]): Promise<readonly Row[]>
  /** Deletes rows that are not due yet and not leased. Resolves to their `seq`, `id` and `type`. */
  cancelWaiting(ids: readonly string[]): Promise<readonly Row[]>
  /**
   * By destination and shown state: `destination`, `shown_state`, `count`, and the `age` of the oldest in milliseconds. With a limit, at most that many
   * rows of each stored state and destination are read, and `reached` says whether there were so many; there may be several rows per shown state.
   */
  stats(limit: number | undefined): Promise<CountedRows>
  /**
   * Counts rows that are stored as parked or waiting, by `state` and `name`: their cause, type or destination. `name` is null for rows that do not match
   * the filter or have no cause. Reads at most `limit` rows of each state, the oldest of a destination first. `first` and `last`: when the oldest and the
   * latest of them were stored (milliseconds).
   */
  groups(by: GroupedBy, filter: OutboxFilter, limit: number): Promise<readonly Row[]>
  /** Deletes published rows older than this many milliseconds. Skips rows locked by another cleanup. Resolves to the number of deleted rows. */
  deletePublished(olderThan: number, limit: number): Promise<number>
}

export interface ListedPage {
  readonly after: string
  readonly limit: number
  readonly payloads: boolean
  /** How many rows to read at most, whether they match or not. */
  readonly maxRead: number
  /** Whether the filter has a message id, or nothing but a destination and the state parked or published: an index may lead to these rows alone. */
  readonly indexed: boolean
}

export interface ListedRows {
  readonly rows: readonly Row[]
  /**
   * Unless there are `limit` rows: the seq where the search ended because of `maxRead`, and when the last row until there was stored (milliseconds).
   * `undefined`: all rows were searched.
   */
  readonly searched?: { readonly seq: string; readonly at: number } | undefined
}

/** `RearmOptions` with defaults applied. */
export type Rearm = Required<Pick<{ readonly [K in keyof RearmOptions]: NonNullable<RearmOptions[K]> }, 'state' | 'delay' | 'keepAttempts'>>

export type GroupedBy = 'failure' | 'type' | 'destination'

/** The notes. All times are the database's. */
export interface NoteStatements {
  /** Writes the notes with one statement, and deletes those of the kind that were written more than `keep` milliseconds ago. Names are sorted and unique. */
  put(kind: string, notes: readonly Pick<Note, 'name' | 'value'>[], keep: number): Promise<void>
  /** The notes of all queries, with one statement, those of each query the latest first: `kind`, `name`, `value`, when it was written (`at`), and the milliseconds since then (`age`). */
  read(queries: readonly NoteQuery[]): Promise<readonly Row[]>
  /** Whether there was one. */
  delete(kind: string, name: string): Promise<boolean>
}

/** What is taken from a bucket of a rate. */
export interface Bucket {
  readonly name: string
  /** Milliseconds in which the bucket gains a permit. */
  readonly cost: number
  readonly burst: number
  readonly wanted: number
  readonly returned: number
}

/** The statements of a rate limiter. All times are the database's. `kind` is that of its rows among the notes. */
export interface RateStatements {
  /**
   * Takes permits from all buckets in one atomic statement; their names are sorted and unique. The rows: `name`, `granted`, and `debt`, the milliseconds until the bucket is full. May
   * report a conflict, and has then taken none.
   */
  take(kind: string, buckets: readonly Bucket[]): Promise<readonly Row[]>
  /** Removes rows of full buckets. Skips rows that are locked. Resolves to the number of removed rows. */
  removeFull(kind: string, limit: number): Promise<number>
}

/** A request that claims an idempotency key. */
export interface NewIdempotencyClaim {
  readonly fingerprint: string
  /** A UUID. */
  readonly token: string
  /** Milliseconds. */
  readonly lease: number
}

/**
 * The statements of an idempotency store. All times are the database's. A row expires with the retention of its answer, or `keepAbandoned` milliseconds after the
 * lease of its claim, whichever it has. No call waits for the transaction of a request, where the database can skip locked rows.
 */
export interface IdempotencyStatements {
  /**
   * A plain read: `fingerprint`, `token`, `status` (null: running), `headers` (JSON), `data` (the body), the `remaining` milliseconds of the lease, and `expired` (1 or
   * 0).
   */
  read(key: IdempotencyKey): Promise<Row | undefined>
  /** Inserts the row of a claim. Resolves to whether there was none. */
  insert(key: IdempotencyKey, claim: NewIdempotencyClaim): Promise<boolean>
  /** Gives a row with this token, which is running or has expired, to another claim. Resolves to whether it was still there and not locked. */
  replace(key: IdempotencyKey, claim: NewIdempotencyClaim, token: string): Promise<boolean>
  /** Deletes a running row with this token, unless it is locked. */
  release(key: IdempotencyKey, token: string): Promise<void>
  /** Deletes expired rows. Skips rows locked by another cleanup. Resolves to the number of deleted rows. */
  deleteExpired(limit: number): Promise<number>
}

/** An answer as it is stored. */
export interface NewIdempotencyAnswer {
  readonly status: number
  /** JSON. */
  readonly headers: string
  readonly body: Uint8Array
  /** Milliseconds. */
  readonly retention: number
}

/** Milliseconds for which a claim is kept whose process has died, after its lease. */
export const keepAbandoned: number = 24 * 60 * 60 * 1000

/**
 * The statements for the instances of processes. All times are the database's. Rows have the columns `version`, `state`, `state_version`, `timeouts` (JSON) and `phase`; those
 * for operators also `process`, `id`, the instants `started_at`, `changed_at` and `expires_at` (milliseconds, null while running), and `idle`, the milliseconds since
 * the last change. `run` is in the transaction of the message, or in none for operators.
 */
export interface ProcessStatements {
  /** Reads a row and locks it until the end of the transaction, where the database has row locks. */
  load(run: RunStatement, key: ProcessKey): Promise<Row | undefined>
  /** Inserts version 1. Resolves to whether there was no row. */
  insert(run: RunStatement, key: ProcessKey, change: ProcessChange): Promise<boolean>
  /** Replaces the version before. Resolves to whether it was still there. */
  update(run: RunStatement, key: ProcessKey, change: ProcessChange): Promise<boolean>
  get(run: RunStatement, key: ProcessKey): Promise<Row | undefined>
  /** Rows after this key, ordered by process and id, at most so many. Also forgotten ones. */
  list(run: RunStatement, page: ListedProcesses): Promise<readonly Row[]>
  /** Finishes a running instance. Resolves to whether it was running. */
  end(run: RunStatement, key: ProcessKey, keep: number): Promise<boolean>
}

interface ListedProcesses {
  /** Only those of this name; `undefined`: of all. */
  readonly process: string | undefined
  readonly after: ProcessKey | undefined
  readonly limit: number
}

export interface Migration {
  /** The version of the tables after this migration. */
  readonly version: number
  /** The oldest version of this code that still works with the tables, so that rolling deployments are possible. */
  readonly oldestReader: number
  readonly sql: (tables: Tables) => string
}

/** The statements with which a database creates its tables. */
export interface SchemaStatements {
  /** Checks the server first, and throws if its version is too old. Absent where every version works. */
  check?(run: RunStatement): Promise<void>
  /** Oldest first; this code works with the version of the last. */
  readonly migrations: readonly Migration[]
  /**
   * Whether the last statement of a migration failed because an interrupted run has already applied it. Absent where a transaction contains the whole
   * migration.
   */
  alreadyExists?(error: unknown): boolean
  /** Creates the table of versions if it does not exist. It has one row per installation. */
  meta(tables: Tables): string
  /** Writes the version. */
  setVersion(tables: Tables, version: number, oldestReader: number): string
  /** Excludes concurrent migrations of these tables, on this connection, until the end of the transaction or `unlock`. */
  lock(tables: Tables): readonly string[]
  /** Sent after the work, also if it failed; empty where the end of the transaction releases the lock. */
  unlock(tables: Tables): readonly string[]
  /** Creates the namespace, if there is one and it does not exist. */
  namespace(tables: Tables): { readonly exists: string; readonly create: string } | undefined
  /** Absent where the inbox cannot have partitions. */
  readonly inboxPartitions?: InboxPartitionStatements | undefined
}

/** The inbox as partitions that are emptied at once, instead of a table whose rows are deleted. `inbox` is quoted. */
export interface InboxPartitionStatements {
  exist(run: RunStatement, inbox: string): Promise<boolean>
  /** Turns the table into partitions, or back. Locks the inbox until the end of the transaction, and keeps its rows. */
  create(inbox: string): string
  remove(inbox: string): string
}

/** The statements of the outbox store, the schema and the cleanup of a database. */
export interface StoreDialect {
  readonly schema: SchemaStatements
  claims(port: StorePort): ClaimStatements
  /** Absent where order per key is not supported. */
  ownership?(port: OwnershipPort): OwnershipStatements
  /** Absent where there is no log mode. */
  readonly log?: LogDialect | undefined
  administration(port: StorePort): AdminStatements
  /** `table` is that of the notes, quoted. */
  notes(driver: Driver<unknown>, table: string): NoteStatements
  /** `table` is that of the notes, quoted. Absent where rates cannot be shared. */
  rates?(driver: Driver<unknown>, table: string): RateStatements
  /** `table` is that of the idempotency keys, quoted. */
  idempotency(driver: Driver<unknown>, table: string): IdempotencyStatements
  /** `table` is that of the processes, quoted. */
  processes(table: string): ProcessStatements
  /** Deletes forgotten instances. Skips rows locked by another cleanup. Resolves to the number of deleted rows. */
  cleanProcesses(driver: Driver<unknown>, table: string, limit: number): Promise<number>
  /** The version of the tables that added that of the processes. */
  readonly versionWithProcesses: number
  /** Stores the answer in a running row with this token. It changes one row, or none if the claim is not held. */
  answer(table: string): (key: IdempotencyKey, token: string, answer: NewIdempotencyAnswer) => Statement
  /** Deletes the referenced rows that are not due yet and not leased. `table` is the outbox, quoted. */
  cancel(table: string, references: readonly OutboxReference[]): Statement
  /**
   * Reads the inbox entries of a message id, ordered by consumer and source: `consumer`, `source`, `id` and `received_at` (milliseconds). Without a
   * consumer or a source it steps from one (consumer, source) to the next in the primary key, because no index begins with the id.
   */
  findInbox(driver: Driver<unknown>, table: string, id: string, query: InboxQuery): Promise<readonly Row[]>
  /** Deletes a bounded number of messages received before the window. Resolves to the number of deleted rows. */
  cleanInbox(driver: Driver<unknown>, table: string, options: { readonly window: number; readonly limit: number }): Promise<number>
  /** Whether the caller may do this now: `true` for at most one caller per interval, by the database's clock. `meta` is that table, quoted. */
  takeTurn(driver: Driver<unknown>, meta: string, turn: { readonly name: string; readonly interval: number }): Promise<boolean>
  /** Whether a connection of the user is in a transaction, for drivers that cannot tell. */
  inTransaction(driver: Driver<unknown>, handle: unknown): Promise<boolean>
}

interface LogKeepOptions {
  /** Milliseconds for which published records are kept at least. Default: 24 hours with `retain`, otherwise 0. */
  readonly keep?: number | undefined
}

/** The statements of the log mode. */
interface LogDialect {
  /** The same as `StoreDialect.cancel`. A row that was moved from the log does not count as published afterwards. */
  cancel(tables: Tables, references: readonly OutboxReference[]): Statement
  claims(port: OwnershipPort, options?: LogKeepOptions): LogStatements
  administration(port: OwnershipPort): AdminStatements
}

/** The connection and tables that the statements of a store with order per key use. */
export interface OwnershipPort extends StorePort {
  readonly tables: Tables
}
