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

/** The writing side: puts events into the transaction of the business writes. */
export interface OutboxWriter<Transaction> {
  /**
   * Stores the records so that they exist if and only if the transaction commits, in this order. One statement for all of them.
   * Nothing is stored if one of them cannot be. Never commits, and refuses anything that is not a running transaction.
   */
  append(transaction: Transaction, records: readonly NewOutboxRecord[]): Promise<void>
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
}

export interface ClaimOptions {
  readonly limit: number
  /** Milliseconds for which nobody else gets what is claimed. */
  readonly lease: number
  /** Only these destinations. Default: all. */
  readonly destinations?: readonly string[] | undefined
  /** Not these destinations, such as those whose broker is down. Default: none. */
  readonly except?: readonly string[] | undefined
  /** Only records that have failed before, or only those that have not. Default: both. */
  readonly retried?: 'only' | 'never' | undefined
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
  /** `perKey`: records of one ordering key are claimed in commit order, one at a time. */
  readonly order: 'none' | 'perKey'
  /** Whether `delay` is kept. */
  readonly delay: boolean
  /** Whether records can be stored already leased to a relay. */
  readonly preLease: boolean
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

  /** Yields when there may be something to claim. A hint, never the truth: the relay polls all the same. Ends when the signal is aborted. */
  wakeUps?(options: { readonly signal: AbortSignal }): AsyncIterable<void>
}
