import type { ClaimOptions, Outcome } from '@ackord/outbox'
import type { Row } from './driver.ts'
import type { StorePort } from './store-dialect.ts'
import type { Tables } from './tables.ts'

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
}

export interface OwnedClaimOptions {
  readonly member: string
  /** What it owns and may give of. */
  readonly partitions: readonly number[]
  readonly limit: number
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
   */
  readonly rows: readonly Row[]
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
  /**
   * Applies outcomes, `failed` and `parked` with one attempt more, if the member lives and owns the partition with that epoch. They come sorted by
   * seq. Gives the seqs of those that were applied.
   */
  settle(member: string, outcomes: readonly OwnedOutcome[]): Promise<ReadonlySet<string>>
}
