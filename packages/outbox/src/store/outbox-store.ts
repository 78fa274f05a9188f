import type { Part, RawMessage } from '@ackord/core'
import type { NewEvents, NewOutboxRecord } from './new-events.ts'
import type { OutboxNotes } from './notes.ts'

/** Identifies a stored record by values that its writer knows. */
export interface OutboxReference {
  readonly destination: string
  /** The `source` of its message. */
  readonly source: string
  /** The `id` of its message, which is unique within its source. */
  readonly id: string
}

/** The same for `cancel()`: without a destination and a source, those that the outbox has for new events. A destination that is a function has to be named. */
export type EventReference = Pick<OutboxReference, 'id'> & Partial<OutboxReference>

/** The argument of `cancel()`: one event or several. */
export type EventReferences = EventReference | readonly EventReference[]

/** The writing side: stores events in the transaction of the business writes. */
export interface OutboxWriter<Transaction> {
  /**
   * Stores the events, in this order, so that they exist if and only if the transaction commits. Uses one statement for all events. If one event
   * cannot be stored, none is. Never commits, and rejects if `transaction` is not a running transaction.
   *
   *     await outbox.append(transaction, orderPlaced({ orderId }))
   */
  append(transaction: Transaction, events: NewEvents): Promise<void>

  /**
   * Removes those of these records that wait for their time: delayed, or backing off after a failure. The removal takes effect if and only if the
   * transaction commits; until then no relay can claim the records, except with order `perKey`, where claims take no locks: there, a record that
   * becomes due while the transaction is open may still be published. Records appended earlier in the same transaction are visible to it. A record
   * that is due, leased, parked or published is not changed: it is too late. Resolves to the number of removed records, or to `undefined` where the
   * store only finds out when it commits. Throws if `transaction` is not a running transaction. Present on every store whose `capabilities.delay` is
   * true.
   *
   *     await outbox.cancel(transaction, { id: `order-overdue-${orderId}` })
   */
  cancel?(transaction: Transaction, references: EventReferences): Promise<number | undefined>
}

/** For tests: reads the outbox inside a transaction, before it commits. */
export interface OutboxReader<Transaction> {
  /**
   * The records that the relay would see if the transaction committed now, oldest first: those stored in it, and all others that it can read. Changes
   * nothing. Throws if `transaction` is not a running transaction.
   */
  readAppended(transaction: Transaction): Promise<readonly NewOutboxRecord[]>
}

/** Identifies one claim of one record. Both parts are opaque and belong to the store; the token fences every later call. */
export interface Claim {
  readonly id: string
  readonly token: string
}

export interface ClaimedRecord extends Claim {
  readonly destination: string
  readonly message: RawMessage
  /** Including this attempt. */
  readonly attempts: number
  /** Milliseconds since the epoch, by the store's clock. */
  readonly createdAt: number
  /** Milliseconds since the record was stored, by the store's clock at the time of the claim. With a stopwatch it tells how late a record is delivered, whatever the relay's clock shows. */
  readonly age: number
  /**
   * The id of the parked record that this record must not overtake, if it was claimed with `behindParked: 'marked'`. The record must be parked too,
   * not published.
   */
  readonly behind?: string | undefined
}

export interface ClaimOptions {
  readonly limit: number
  /**
   * The largest total size of the claimed records, in bytes: the data and the attributes of each, as the store keeps them. The store stops before the
   * record that would exceed it, inside the statement or script itself, so that a claim never reads more than this into memory. The first record is
   * always claimed, however large it is; otherwise it would block the records behind it. Default: no limit.
   */
  readonly maxBytes?: number | undefined
  /**
   * A record that is larger than `maxBytes` and has been claimed more often than this may be returned with empty data: reading it may have crashed
   * the relays that claimed it before, and the relay parks it without publishing it. Default: data is always read.
   */
  readonly maxAttempts?: number | undefined
  /** Milliseconds for which no other relay can claim the records. */
  readonly lease: number
  /** Only these destinations. Default: all. */
  readonly destinations?: readonly string[] | undefined
  /** Excludes these destinations, such as those whose broker is down. Default: none. */
  readonly except?: readonly string[] | undefined
  /** Only records that have failed before, or only those that have not. Default: both. With order `perKey` the option is ignored and claims return both. */
  readonly retried?: 'only' | 'never' | undefined
  /**
   * With order `perKey`: how to treat records that follow a parked record of their key. `given`: claimed like all others. `kept`: not claimed until
   * the parked record is re-armed or discarded. `marked`: claimed, with the id of the parked record in `behind`. Default: `given`.
   */
  readonly behindParked?: 'given' | 'kept' | 'marked' | undefined
}

/** Why a record could not be published. The store keeps the last ten errors of a record, with their times. */
interface Failure {
  readonly error: string
  /** The part that it shares with other failures of the same kind. At most 200 characters. Default: unknown. */
  readonly cause?: string | undefined
}

/** The outcome of a claimed record. */
export type Outcome = Claim &
  (
    | { readonly result: 'published' }
    /** The record may be claimed again after `retryAfter` milliseconds, by the store's clock. */
    | (Failure & { readonly result: 'failed'; readonly retryAfter: number })
    /** The record stays until an operator re-arms or discards it; no timer ever changes it. */
    | (Failure & { readonly result: 'parked' })
  )

export interface OutboxCapabilities {
  /**
   * `perKey`: records of one destination and ordering key are claimed in the order of their commits. A claim returns a run of them, starting with the
   * first, and no relay gets more records of that key until the whole run is settled or released; a failed record blocks the records behind it. The
   * reader is responsible for publishing a run one record after the other. Records without a key have no order.
   *
   * Every record belongs to one of many partitions, by its key. A partition is owned by one store object at a time, for as long as that object claims
   * or renews; the active objects share the partitions fairly, and hand one over only when none of its records is in flight. A claim therefore only
   * reads its own partitions. An attempt counts when it is settled as failed or parked, or when its owner disappears: a record that was in flight
   * then may be what crashed it. Where the answer to a claim can be lost, the records of that claim must not stay in flight while their owner
   * continues to claim: no reader has received them.
   */
  readonly order: 'none' | 'perKey'
  /** Whether the store supports `delay`. */
  readonly delay: boolean
  /** Whether records can be stored already leased to a relay, that is, whether `attach` exists. */
  readonly preLease: boolean
  /** Whether `wakeUps` reports every commit, including those of other processes, so that polling only makes up for lost notifications. Default: false. */
  readonly notifies?: boolean | undefined
}

/** Receives records right after their commit, so that they need not be claimed. */
export interface RecordTaker {
  /**
   * Called before records for these destinations are stored. Returns for how many milliseconds they are to be leased to the taker, or `undefined` if
   * the taker does not want them: then they are stored for any relay to claim.
   */
  lease(destinations: readonly string[]): number | undefined
  /**
   * Called after the commit. The records are leased as by a claim, and the first attempt is counted. `age` is the number of milliseconds since
   * `lease` was called: the lease lasts at least the rest of its duration. Must not throw.
   */
  take(records: readonly ClaimedRecord[], age: number): void
}

/**
 * The relay's side. The states of a record:
 *
 *     ready ─ claim ─▶ leased ─ settle published ─▶ gone (or kept as published)
 *       ▲                │    ─ settle failed ────▶ waiting ─ the delay is over ─▶ claimable
 *       │                │    ─ settle parked ────▶ parked ─ rearm ─▶ ready
 *       │                │    ─ release ──────────▶ the state before the claim
 *       └────────────────┴─ the lease expires ────▶ claimable, with the attempt counted
 *
 * Any number of relays may call a store concurrently. All instants are by the store's clock; callers pass durations. A relay passes its logger and metrics on by
 * `inheritPorts()`, if there is one.
 */
export interface OutboxStore extends Part {
  readonly capabilities: OutboxCapabilities

  /** The facts that relays and operators share, such as pauses. Without it destinations cannot be paused, and relays are not listed. */
  readonly notes?: OutboxNotes | undefined

  /** With order `perKey`: the partitions that this object owns, as far as it knows; see `OutboxRecord.partition`. `undefined` without order. */
  ownedPartitions?(): readonly number[] | undefined

  /**
   * Leases up to `limit` claimable records to the caller, oldest first within a destination. Records that another relay has leased are skipped, not
   * waited for; records with an expired lease are claimed again. The attempt is counted here, so that a record that crashes its relay runs out of
   * attempts too. Records of one destination never prevent those of another from being found.
   */
  claim(options: ClaimOptions): Promise<readonly ClaimedRecord[]>

  /** Extends leases to `lease` milliseconds from now. Returns one answer per claim, in their order: `false` means that the claim was lost, which is final. */
  renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]>

  /** Returns records to their state before the claim: claimable immediately, the attempt not counted. Lost claims are ignored. */
  release(claims: readonly Claim[]): Promise<void>

  /**
   * One round trip for all. Applies each outcome if its claim is still valid, and returns one answer per outcome, in their order. A stale token
   * changes nothing. Neither does the token of an expired lease, even if no other relay has claimed the record yet, because one may at any moment.
   */
  settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]>

  /**
   * With `preLease`: until the returned function is called, records stored by this process are passed to the taker right after their commit, as far
   * as the taker wants them. There is one taker at a time; the latest wins. If the process ends in between, the lease expires.
   */
  attach?(taker: RecordTaker): () => void

  /**
   * With order `perKey`: gives up ownership, so that other store objects can own its partitions immediately instead of after a time-out. Call it when
   * no record is in flight; a later claim starts anew. Without it, or if it fails, the others wait for the time-out.
   */
  leave?(): Promise<void>

  /**
   * Yields when there may be records to claim. It is only a hint: notifications may be lost or needless, so the relay polls as well. Ends when the
   * signal is aborted.
   */
  wakeUps?(options: { readonly signal: AbortSignal }): AsyncIterable<void>
}
