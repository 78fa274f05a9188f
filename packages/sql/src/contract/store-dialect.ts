import type {
  ClaimOptions,
  IdempotencyKey,
  InboxQuery,
  Note,
  NoteQuery,
  OutboxFilter,
  OutboxReference,
  Outcome,
  RearmOptions,
} from '@ackord/outbox'
import type { RowKey } from '../records/claim-bytes.ts'
import type { ClaimedRowKey } from '../records/claimed-record.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { Row } from '../records/row.ts'
import type { Tables } from './database-options.ts'
import type { Driver, RunStatement, Statement } from './driver.ts'
import type { LogStatements } from './log-statements.ts'

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

/** The statements of the log mode. */
interface LogDialect {
  claims(port: OwnershipPort): LogStatements
  administration(port: OwnershipPort): AdminStatements
}

/** The connection and tables that the statements of a store with order per key use. */
export interface OwnershipPort extends StorePort {
  readonly tables: Tables
}

/** The state of the members, by the database's clock. */
export interface MemberStatus {
  /** Milliseconds until the lease of this member expires. */
  readonly remaining: number
  /** The number of live members, including this one. */
  readonly live: number
  /** The number of registered members whose lease has expired. */
  readonly gone: number
  /** The number of partitions without an owner, or whose owner is not registered. 0 if it was not queried. */
  readonly free: number
}

/** The partitions that a member owns, with the epoch of each. */
export interface Ownership {
  readonly owned: ReadonlyMap<number, string>
  readonly live: number
}

export interface KeepOptions {
  /** A UUID. */
  readonly member: string
  /** Milliseconds. */
  readonly lease: number
  /** Whether the member is new. */
  readonly joins: boolean
  /** Partitions that the member releases. */
  readonly handOver: readonly number[]
}

/** The location of a key within a destination. */
export interface KeyLocation {
  readonly partition: number
  readonly key: string
}

/** Where reading of a destination continues. Seqs are numbers as strings. A destination without a position is read from its beginning. */
export interface ReadPosition {
  readonly destination: string
  /** Of the records without a key, those after this seq are read … */
  readonly floor: string
  /**
   * … and a range of those before it: after the first seq, up to and including the second. Finds records that were committed late. Equal: nothing.
   */
  readonly sweep: readonly [after: string, to: string]
  /** The last visited key: its successors come first, then, from the beginning, the keys up to it. */
  readonly key: KeyLocation | undefined
}

/** A key with records that may be claimed, and a seq up to which none of them is ready or waiting. */
export interface PendingKey extends KeyLocation {
  readonly destination: string
  readonly after: string
}

export interface ReadKey extends KeyLocation {
  readonly seq: string
}

/** Where reading of the keys of a destination continues. */
interface KeyPosition {
  readonly destination: string
  /** The records that are ready are read after this seq. */
  readonly floor: string
  /** The records that were waiting are read if they became due after this instant: seconds since the epoch, by the database's clock. */
  readonly dueAfter: number
}

/** The keys of records of a destination. */
export interface KeysRead {
  /** Of records that are ready. */
  readonly ready: readonly ReadKey[]
  /** The last seq that was read, including records of others and without a key; `undefined` if there were none. */
  readonly last: string | undefined
  /** Whether there are records without a key up to there. */
  readonly plain: boolean
  /** Of records that have become due, and where these are read from the next time. */
  readonly due: readonly ReadKey[]
  readonly dueAfter: number
  /** Whether reading stopped before the end. */
  readonly more: boolean
}

/** A range of the keys of a destination, in the order of the index: after this key (`''`: from the beginning of its partition), before this partition. */
export interface KeyRange {
  readonly destination: string
  readonly after: KeyLocation
  readonly before: number
  /** Keys whose first record has a greater seq are passed over; `undefined`: none. */
  readonly upTo: string | undefined
}

export interface KeysWalked {
  /** The keys with records that can be claimed. */
  readonly keys: readonly ReadKey[]
  /** The last key that was visited, and the number of visited keys. */
  readonly last: KeyLocation | undefined
  readonly visited: number
  /** Whether the walk ended before the end of the range. */
  readonly more: boolean
}

/** How far the reading of a destination got. */
export interface ReadProgress {
  readonly destination: string
  /** The last visited key, and the number of visited keys that had records to claim. */
  readonly key: KeyLocation | undefined
  readonly heads: number
  /** Whether every key was visited. */
  readonly allKeys: boolean
  /** The number of records without a key, after the floor, that could be claimed. */
  readonly matches: number
  /** The last seq of the records that were read, including those of others; `undefined` if there were none. */
  readonly read: string | undefined
  /** Whether reading of the records without a key stopped before the end. */
  readonly more: boolean
}

/** A row that a member has claimed and not settled, as it was when it was claimed. */
export interface InFlightRow {
  readonly seq: string
  readonly state: string
  readonly destination: string
  readonly partition: number
  readonly epoch: string
  readonly key: string | undefined
  /** The attempts counted before the claim. */
  readonly attempts: number
  /** The physical location of the row at that time, if the database can use it to find the row: the column `location` of a claim. */
  readonly location?: string | undefined
}

export interface OwnedClaimOptions {
  readonly member: string
  /** The partitions that the member owns and may claim from. */
  readonly partitions: readonly number[]
  readonly limit: number
  /** The maximum bytes of the whole claim; `undefined`: no limit. */
  readonly maxBytes: number | undefined
  /** Bytes that the claim has used so far. The first row is claimed regardless of its size only if this is 0. */
  readonly spent: number
  readonly destinations: readonly string[] | undefined
  readonly except: readonly string[]
  readonly behindParked: NonNullable<ClaimOptions['behindParked']>
  /** Whether to look for new destinations, keys and free partitions; otherwise only the destinations of the positions are read. */
  readonly discover: boolean
  readonly positions: readonly ReadPosition[]
  /** The maximum number of rows read after the floor of a destination. */
  readonly window: number
  /** The maximum number of keys visited per destination; `0` where there are no keys. */
  readonly jumps: number
  /** Where the store has `KeyStatements`: the keys to claim from, in place of a walk. */
  readonly keys?: readonly PendingKey[] | undefined
  /** All rows that this member has in flight: neither these rows nor others of their keys are claimed. */
  readonly inFlight: readonly InFlightRow[]
  /** Rows of a key with a higher seq are not claimed: the log may have earlier ones that were not read yet. Default: no limit. */
  readonly keysUpTo?: string | undefined
  /**
   * The claim journal entry. The statement that claims rows must also write them to the journal, so that a takeover finds them: under this number,
   * together with the rows `carried` over from earlier entries. Entries that are `done` are deleted. A database with one entry per member writes all
   * rows in flight, old and new.
   */
  readonly entry: { readonly number: number; readonly done: readonly number[]; readonly carried: readonly InFlightRow[] }
}

export interface OwnedClaim {
  /** `undefined`: the member's lease had expired, and nothing was claimed. */
  readonly status: MemberStatus | undefined
  /** With `discover`: whether any member has rows with a key that are ready or waiting. */
  readonly anyKeys: boolean | undefined
  /** With `keys`: those that were visited and have no records to claim. */
  readonly emptyKeys?: readonly PendingKey[] | undefined
  /**
   * The columns of a claim except for `id` and `type`, with `attempts` as stored, and `partition`, `ordering_key`, `turn` (the number of the key in
   * the order of the visit) and `behind` (the seq of the first parked row before it, if requested): the last three are null or absent without a key.
   * Also `location`, where the database has one. Where `data` is null, the row is too large to be read before the journal entry is committed:
   * `contents` returns it.
   */
  readonly rows: readonly Row[]
  /** Whether rows were found and not claimed because of `maxBytes`. */
  readonly cut: boolean
  /** For every destination that was read. */
  readonly progress: readonly ReadProgress[]
}

export interface OwnedOutcome {
  readonly row: InFlightRow
  readonly outcome: Outcome
}

/**
 * The statements that find keys with records that may be claimed, one result per destination. They change nothing. Only where a walk over all keys may
 * become slow, because the index still has those of deleted records.
 */
export interface KeyStatements {
  /** Reads at most `limit` records of each kind per destination, in the order in which they were stored or have become due. */
  readKeys(
    options: Pick<OwnedClaimOptions, 'partitions' | 'limit' | 'keysUpTo'> & { readonly positions: readonly KeyPosition[] },
  ): Promise<readonly KeysRead[]>
  /** Steps from key to key, and visits at most `jumps` keys per destination. */
  walkKeys(
    options: Pick<OwnedClaimOptions, 'partitions' | 'behindParked' | 'jumps'> & { readonly ranges: readonly KeyRange[] },
  ): Promise<readonly KeysWalked[]>
}

/**
 * The relay's statements with order per key. Each call is atomic and safe to run concurrently. All times are the database's. Rows are never leased:
 * partitions are owned, and the epoch of a partition fences its rows.
 */
export interface OwnershipStatements extends Partial<KeyStatements> {
  /**
   * Extends the member's lease. Removes members whose lease has expired: the records they had in flight get one more attempt, and their partitions
   * become free. Releases the partitions in `handOver`, then acquires free partitions until the member has its share: `partitionCount` divided by the
   * number of live members, rounded up. Every change of owner increments the epoch. No partition is taken from a registered member. `undefined`: the
   * member's lease had expired.
   */
  keep(options: KeepOptions): Promise<Ownership | undefined>
  /** Removes the member, if it is registered, with its journal, and frees its partitions. The records it has in flight get one more attempt. */
  leave(member: string, inFlight: readonly InFlightRow[]): Promise<void>
  /**
   * Claims rows of these partitions if the member is alive, evenly over destinations, and in each evenly over keys and records without a key. Of a
   * key it claims a run from its head on: the lowest seq that is ready or waiting. A row that is not due ends the run, and so does a row leased by a
   * relay without order.
   */
  claim(options: OwnedClaimOptions): Promise<OwnedClaim>
  /** The columns `seq`, `data` and `attributes` of rows, by key. */
  contents(keys: readonly RowKey[]): Promise<readonly Row[]>
  /**
   * Applies outcomes, `failed` and `parked` with one more attempt, if the member is alive and owns the partition with that epoch. Outcomes must be
   * sorted by seq. Resolves to the seqs that were applied.
   */
  settle(member: string, outcomes: readonly OwnedOutcome[]): Promise<ReadonlySet<string>>
}
