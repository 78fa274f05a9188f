import type { ClaimOptions, Outcome } from '@ackord/outbox'
import type { RowKey } from '../records/claim-bytes.ts'
import type { Row } from '../records/row.ts'

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
