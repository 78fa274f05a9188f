import type { RawMessage } from '@ackord/core'

/** An event to be stored. Its id, type, ordering key (`partitionkey`) and content type are the message's own attributes. */
export interface NewOutboxRecord {
  /** Where the relay publishes it. */
  readonly destination: string
  /** Complete: with id, type and source. Bytes, never JSON columns: what was marshalled is what is published. */
  readonly message: RawMessage
  /** Milliseconds before it may be published, by the store's clock. Default: none. */
  readonly delay?: number | undefined
}

/** Names a stored record by what its writer knows of it. */
export interface OutboxReference {
  readonly destination: string
  /** The `source` of its message. */
  readonly source: string
  /** The `id` of its message, which is unique within its source. */
  readonly id: string
}

/** The writing side: puts events into the transaction of the business writes. */
export interface OutboxWriter<Transaction> {
  /**
   * Stores the records so that they exist if and only if the transaction commits, in this order. One statement for all of them.
   * Nothing is stored if one of them cannot be. Never commits, and refuses anything that is not a running transaction.
   */
  append(transaction: Transaction, records: readonly NewOutboxRecord[]): Promise<void>

  /**
   * Removes those of these records that wait for their time: delayed, or backing off after a failure. It takes effect if and only if the
   * transaction commits; until then no relay can claim them, except with order `perKey`, where claims lock nothing: there, a record whose time comes while
   * the transaction is open may be published all the same. It sees what the same transaction has appended before. A record that is due, leased,
   * parked or published is left alone: it is too late. Resolves to the number of removed records, or to `undefined` where the store finds out only
   * when it commits. Refuses anything that is not a running transaction. Present on every store whose `capabilities.delay` is true.
   */
  cancel?(transaction: Transaction, references: readonly OutboxReference[]): Promise<number | undefined>
}

/** For tests: looks into the outbox from inside of a transaction, before it commits. */
export interface OutboxReader<Transaction> {
  /**
   * What the transaction would leave for the relay if it committed now, oldest first: what was stored in it, and what else it sees. Changes
   * nothing. Refuses anything that is not a running transaction.
   */
  readAppended(transaction: Transaction): Promise<readonly NewOutboxRecord[]>
}

/** Names one claim of one record. Both parts are the store's own; the token fences every later call. */
export interface Claim {
  readonly id: string
  readonly token: string
}

export interface ClaimedRecord extends Claim {
  readonly destination: string
  readonly message: RawMessage
  /** This one included. */
  readonly attempts: number
  /** Milliseconds since the epoch, by the store's clock. */
  readonly createdAt: number
  /** The parked record that it must not overtake, if it was asked for with `behindParked: 'marked'`. It is to be parked too, not published. */
  readonly behind?: string | undefined
}

export interface ClaimOptions {
  readonly limit: number
  /**
   * The largest total size of the claimed records, in bytes: the data and the attributes of each, as the store keeps them. The store stops before the
   * record that would exceed it, inside the statement or script itself, so that a claim never reads more than this into memory. The first record is
   * always claimed, however large it is, or it would block those behind it. Default: no limit.
   */
  readonly maxBytes?: number | undefined
  /**
   * A record that is larger than `maxBytes` and has been claimed more often than this may come with empty data: reading it may be what ended those who claimed it
   * before, and the relay parks it unsent. Default: data is always read.
   */
  readonly maxAttempts?: number | undefined
  /** Milliseconds for which nobody else gets what is claimed. */
  readonly lease: number
  /** Only these destinations. Default: all. */
  readonly destinations?: readonly string[] | undefined
  /** Not these destinations, such as those whose broker is down. Default: none. */
  readonly except?: readonly string[] | undefined
  /** Only records that have failed before, or only those that have not. Default: both. With order `perKey` it is both always. */
  readonly retried?: 'only' | 'never' | undefined
  /**
   * With order `perKey`: what becomes of records whose key has a parked one before them. `given` like all others, `kept` until that one is
   * re-armed or discarded, or given and `marked` with it. Default: `given`.
   */
  readonly behindParked?: 'given' | 'kept' | 'marked' | undefined
}

/** What became of a claimed record. */
export type Outcome = Claim &
  (
    | { readonly result: 'published' }
    /** It may be claimed again after `retryAfter` milliseconds, by the store's clock. */
    | { readonly result: 'failed'; readonly error: string; readonly retryAfter: number }
    /** It stays until an operator re-arms or discards it; no timer ever touches it. */
    | { readonly result: 'parked'; readonly error: string }
  )

export interface OutboxCapabilities {
  /**
   * `perKey`: records of one destination and ordering key are given in the order of their commits. A claim gives a run of them from the
   * first on, and no more of that key to anybody until the whole run is settled or released; one that failed holds up those behind it. It is for
   * the reader to publish a run one after the other. Records without a key are in no order.
   *
   * Every record is in one of many partitions, by its key, and a partition belongs to one store object at a time, for as long as that one
   * claims or renews; the objects that do share them fairly, and hand them over when nothing of them is in hand. So a claim finds what is in its own
   * partitions. An attempt counts when it is settled as failed or parked, or when its owner is gone without a word: what was in its hands then may be
   * what ended it. Where the answer to a claim can be lost, what it gave must not stay in hand for as long as its owner goes on claiming: nobody has it.
   */
  readonly order: 'none' | 'perKey'
  /** Whether `delay` is kept. */
  readonly delay: boolean
  /** Whether records can be stored already leased to a relay: `attach` is there. */
  readonly preLease: boolean
  /** Whether `wakeUps` tells of every commit, also of other processes, so that polling is only what makes up for a hint that was lost. Default: false. */
  readonly notifies?: boolean | undefined
}

/** What a store hands records to that were committed a moment ago. */
export interface RecordTaker {
  /**
   * Asked before records for these destinations are stored: for how many milliseconds they are to be leased to the taker. `undefined`: it
   * does not take them, and they are stored for whoever claims them.
   */
  lease(destinations: readonly string[]): number | undefined
  /**
   * Called after the commit. The records are leased as by a claim, and the first attempt is counted. `age` is the number of milliseconds since `lease` was
   * called: the lease does not end before the rest of its duration. Must not throw.
   */
  take(records: readonly ClaimedRecord[], age: number): void
}

/**
 * The relay's side. A record's way:
 *
 *     ready ─ claim ─▶ leased ─ settle published ─▶ gone (or kept as published)
 *       ▲                │    ─ settle failed ────▶ waiting ─ its time comes ─▶ claimable
 *       │                │    ─ settle parked ────▶ parked ─ rearm ─▶ ready
 *       │                │    ─ release ──────────▶ as it was before the claim
 *       └────────────────┴─ the lease runs out ───▶ claimable, with the attempt counted
 *
 * Any number of relays may call a store at once. All instants are by the store's clock; callers pass durations.
 */
export interface OutboxStore {
  readonly capabilities: OutboxCapabilities

  /**
   * Takes up to `limit` claimable records, oldest first within a destination, and leases them to the caller alone. What is leased to
   * somebody else is skipped, not waited for; what is leased to nobody any more is taken over. An attempt counts here, so that a record
   * that kills its relay runs out of attempts too. Records of one destination never keep those of another from being found.
   */
  claim(options: ClaimOptions): Promise<readonly ClaimedRecord[]>

  /** Extends leases to `lease` milliseconds from now. One answer per claim, in their order: `false` means that it was lost, and stays so. */
  renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]>

  /** Gives records back as they were before the claim: claimable at once, the attempt not counted. Claims that were lost are left alone. */
  release(claims: readonly Claim[]): Promise<void>

  /** One round trip for all. Applies each outcome if its claim still holds, and answers for each, in their order. A stale token changes nothing,
   * and so does one whose lease has run out, also while nobody has taken the record over: somebody may at any moment. */
  settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]>

  /**
   * With `preLease`: from now on, until the function that it gives is called, what is stored by this process is handed to the taker right after its
   * commit, as far as the taker wants it. One taker at a time; the latest counts. If the process ends in between, the lease runs out.
   */
  attach?(taker: RecordTaker): () => void

  /**
   * With order `perKey`: nobody claims through this object any more, so what it owns is anybody's at once, not when its time runs out. To be called when nothing is
   * in hand; a later claim begins anew. Without it, or if it fails, the others wait.
   */
  leave?(): Promise<void>

  /** Yields when there may be something to claim. A hint, never the truth: the relay polls all the same. Ends when the signal is aborted. */
  wakeUps?(options: { readonly signal: AbortSignal }): AsyncIterable<void>
}
