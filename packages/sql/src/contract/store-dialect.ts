import type { ClaimOptions, OutboxFilter, OutboxReference, Outcome, RearmOptions } from '@ackord/outbox'
import type { RowKey } from '../records/claim-bytes.ts'
import type { ClaimedPlace } from '../records/claim-token.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { Row } from '../records/row.ts'
import type { Tables } from './database-options.ts'
import type { Driver, RunStatement, Statement } from './driver.ts'

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
  /** Bytes that this claim has taken already; `maxBytes` is for all of it. Only if it is 0 is the first row taken however large it is. */
  readonly spent: number
}

export type PlacedOutcome = ClaimedPlace & { readonly outcome: Outcome }

/**
 * The relay's side in the database's own statements. Each call is atomic, and any number of them may run at once. Time is the database's.
 * Rows have the columns `seq`, `state`, `destination`, `id`, `type`, `data`, `attributes`, `attempts`, `created_at` (milliseconds).
 */
export interface ClaimStatements {
  /**
   * Leases rows, with the attempt counted; those of the first call of a claim also tell the `quota` that was used. In any order. Where `data` is null the row is
   * too large to be read before the attempt is committed: `contents` has it.
   */
  claim(options: ClaimRowsOptions): Promise<readonly Row[]>
  /** The columns `seq`, `data` and `attributes` of rows, by their keys. */
  contents(keys: readonly RowKey[]): Promise<readonly Row[]>
  /** The seqs whose claim held. Places come sorted by seq, so that no two callers wait for each other in a circle. */
  renew(places: readonly ClaimedPlace[], lease: number): Promise<ReadonlySet<string>>
  release(places: readonly ClaimedPlace[]): Promise<void>
  /** The seqs whose claim held. */
  settle(outcomes: readonly PlacedOutcome[]): Promise<ReadonlySet<string>>
}

/** Which rows to re-arm or to discard. */
export type ChosenRows = { readonly ids: readonly string[] } | { readonly filter: OutboxFilter }

/**
 * The operators' side. Rows have the columns of a claim, `shown_state` (a lease and the time that has come included), `last_error` and the
 * instants `available_at`, `lease_until`, `published_at`, `parked_at` (milliseconds).
 */
export interface AdminStatements {
  /** By seq, those after this one. */
  list(filter: OutboxFilter, after: string, limit: number): Promise<readonly Row[]>
  get(seq: string): Promise<Row | undefined>
  /** Makes parked or published rows ready, or waiting if there is a delay; changed to what `edit` gives for each, if there is one. Resolves to their number. */
  rearm(which: ChosenRows, edit: ((row: Row) => OutboxRow) | undefined, options: Rearm): Promise<number>
  /** Parks rows that are ready or waiting and not leased. Resolves to their `seq`, `id` and `type`. */
  park(ids: readonly string[], reason: string): Promise<readonly Row[]>
  /** Deletes parked rows. Resolves to their `seq`, `id` and `type`. */
  discard(ids: readonly string[]): Promise<readonly Row[]>
  /** By destination and shown state: `destination`, `shown_state`, `count`, and the `age` of the oldest in milliseconds. */
  stats(): Promise<readonly Row[]>
  /** Deletes published rows that are older than so many milliseconds. Skips what another cleanup has locked. */
  deletePublished(olderThan: number, limit: number): Promise<number>
}

/** `RearmOptions` with its defaults filled in. */
export type Rearm = { readonly [K in keyof RearmOptions]-?: NonNullable<RearmOptions[K]> }

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
  /** Deletes those of these rows whose time has not come and that nobody has leased. `table` is the outbox, quoted. */
  cancel(table: string, references: readonly OutboxReference[]): Statement
  /** Forgets messages that were received longer ago than the window, a bounded number. Resolves to how many. */
  cleanInbox(driver: Driver<unknown>, table: string, options: { readonly window: number; readonly limit: number }): Promise<number>
  /** Whether the turn to do this is the caller's: `true` for one caller at most in each interval, by the database's clock. `meta` is that table, quoted. */
  takeTurn(driver: Driver<unknown>, meta: string, turn: { readonly name: string; readonly interval: number }): Promise<boolean>
  /** Whether a connection of the user's own, whose driver does not tell, is in a transaction. */
  inTransaction(driver: Driver<unknown>, handle: unknown): Promise<boolean>
}

/** What the statements of a store with order per key run on. */
export interface OwnershipPort extends StorePort {
  readonly tables: Tables
}

/** How it is with the members, by the database's clock. */
export interface MemberStatus {
  /** Milliseconds that this member has left. */
  readonly remaining: number
  /** How many live, this one included. */
  readonly live: number
  /** How many are silent past their lease, and still noted. */
  readonly gone: number
  /** How many partitions nobody owns, or nobody that is noted. 0 where it was not looked for. */
  readonly free: number
}

/** What a member owns: the partitions, with the epoch of each. */
export interface Ownership {
  readonly owned: ReadonlyMap<number, string>
  readonly live: number
}

export interface KeepOptions {
  /** A UUID. */
  readonly member: string
  /** Milliseconds. */
  readonly lease: number
  /** Whether the member is a new one. */
  readonly joins: boolean
  /** Partitions that it gives away. */
  readonly handOver: readonly number[]
}

/** A key of some destination, by where it is found. */
export interface KeyPlace {
  readonly partition: number
  readonly key: string
}

/** Where the reading of a destination goes on. Seqs are numbers as text. A destination without a position is read from its beginning. */
export interface ReadPosition {
  readonly destination: string
  /** Of what has no key, that which comes after this seq is read … */
  readonly floor: string
  /** … and a part of what comes before: after the first seq, up to and including the second. For what was committed late. Equal: nothing. */
  readonly sweep: readonly [after: string, to: string]
  /** The key that was looked at last: its successors come first, then, from the beginning, those up to it. */
  readonly key: KeyPlace | undefined
}

/** How far the reading of a destination came. */
export interface ReadProgress {
  readonly destination: string
  /** The last key that was looked at, and how many of those looked at had something to give. */
  readonly key: KeyPlace | undefined
  readonly heads: number
  /** Whether every key was looked at. */
  readonly allKeys: boolean
  /** How many records without a key, after the floor, could be given. */
  readonly matches: number
  /** The last seq that was read of them, others included; `undefined` if there was none. */
  readonly read: string | undefined
  /** Whether the reading of what has no key ended before there was nothing more. */
  readonly more: boolean
}

/** A row that is in somebody's hands, as it was when it was claimed. */
export interface InHand {
  readonly seq: string
  readonly state: string
  readonly destination: string
  readonly partition: number
  readonly epoch: string
  readonly key: string | undefined
  /** Those that were counted before it was claimed. */
  readonly attempts: number
  /** Where the database had it then, in its own terms, if it can find it by that: the column `place` of a claim. */
  readonly place?: string | undefined
}

export interface OwnedClaimOptions {
  readonly member: string
  /** What it owns and may give of. */
  readonly partitions: readonly number[]
  readonly limit: number
  /** The most bytes of the whole claim; `undefined`: any number. */
  readonly maxBytes: number | undefined
  /** Bytes that the claim has taken already. Only if it is 0 is the first row given however large it is. */
  readonly spent: number
  readonly destinations: readonly string[] | undefined
  readonly except: readonly string[]
  readonly behindParked: NonNullable<ClaimOptions['behindParked']>
  /** Whether other destinations, keys and free partitions are to be looked for; otherwise only the destinations of the positions are read. */
  readonly discover: boolean
  readonly positions: readonly ReadPosition[]
  /** How many rows after the floor of a destination are read at most. */
  readonly window: number
  /** How many keys of a destination are looked at at most; `0` where there are none. */
  readonly jumps: number
  /** All that is in the hands of this member: neither these rows nor others of their keys are given. */
  readonly inHand: readonly InHand[]
  /**
   * What is given must be noted by the same statement, so that a takeover finds it: under this number, together with what is `carried` from
   * notes before. Those that are `done` are deleted. A database that has one note per member writes what is in hand and what is given.
   */
  readonly note: { readonly number: number; readonly done: readonly number[]; readonly carried: readonly InHand[] }
}

export interface OwnedClaim {
  /** `undefined`: the member's time was over, and nothing was given. */
  readonly status: MemberStatus | undefined
  /** With `discover`: whether anybody has rows with a key that are ready or waiting. */
  readonly anyKeys: boolean | undefined
  /**
   * The columns of a claim except for `id` and `type`, with `attempts` as they are stored, and `partition`, `ordering_key`, `turn` (the number of its key in the order in
   * which keys were looked at) and `behind` (the seq of the first parked row before it, if it was asked for): the last three null or absent without a key.
   * Also `place`, where the database has one. Where `data` is null the row is too large to be read before the note is committed: `contents` has it.
   */
  readonly rows: readonly Row[]
  /** Whether rows that were found are not given because of `maxBytes`. */
  readonly cut: boolean
  /** Of every destination that was looked at. */
  readonly progress: readonly ReadProgress[]
}

export interface OwnedOutcome {
  readonly held: InHand
  readonly outcome: Outcome
}

/**
 * The relay's side with order per key, in the database's own statements. Each call is atomic, and any number of them may run at once. Time is
 * the database's. Rows are never leased: a partition is owned, and its epoch fences.
 */
export interface OwnershipStatements {
  /**
   * Extends the member's time. Buries members that are silent past theirs: what they had in hand has one attempt more, and what they owned is free.
   * Gives away what is handed over; then takes, of what is free, what the member lacks of its share: `partitionCount` by the number of the living, rounded
   * up. Every change of owner raises the epoch. No partition is taken from a member that is noted. `undefined`: the member's time was over.
   */
  keep(options: KeepOptions): Promise<Ownership | undefined>
  /** Forgets the member, if it is noted, with its notes, and frees its partitions. What it has in hand has one attempt more. */
  leave(member: string, inHand: readonly InHand[]): Promise<void>
  /**
   * Gives rows of these partitions if the member lives, evenly over destinations, and in each evenly over keys and what has no
   * key. Of a key a run from its head on: the lowest seq that is ready or waiting. What waits for its time ends the run; a row that is leased, by a relay
   * without order, does too.
   */
  claim(options: OwnedClaimOptions): Promise<OwnedClaim>
  /** The columns `seq`, `data` and `attributes` of rows, by their keys. */
  contents(keys: readonly RowKey[]): Promise<readonly Row[]>
  /**
   * Applies outcomes, `failed` and `parked` with one attempt more, if the member lives and owns the partition with that epoch. They come sorted by
   * seq. Gives the seqs of those that were applied.
   */
  settle(member: string, outcomes: readonly OwnedOutcome[]): Promise<ReadonlySet<string>>
}
