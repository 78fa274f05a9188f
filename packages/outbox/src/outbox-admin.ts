import type { Attributes, RawMessage } from '@ackord/core'

/** `waiting` for its time: delayed, or backing off after a failure. `leased`: some relay has it. */
export type OutboxState = 'ready' | 'waiting' | 'leased' | 'parked' | 'published'

/** A record as operators see it. Instants are milliseconds since the epoch, by the store's clock. */
export interface OutboxRecord {
  readonly id: string
  readonly state: OutboxState
  readonly destination: string
  /** It cannot be settled. */
  readonly message: RawMessage
  readonly attempts: number
  readonly createdAt: number
  /** When it may be claimed. */
  readonly availableAt: number
  readonly lastError: string | undefined
  readonly leasedUntil: number | undefined
  readonly publishedAt: number | undefined
  readonly parkedAt: number | undefined
}

export interface OutboxFilter {
  readonly state?: OutboxState | undefined
  readonly destination?: string | undefined
  readonly type?: string | undefined
  /** The `partitionkey` of its message. */
  readonly orderingKey?: string | undefined
}

export interface OutboxPage {
  readonly records: readonly OutboxRecord[]
  /** Give it to `list` for the page after this one; `undefined` at the end. */
  readonly next: string | undefined
}

export interface OutboxEdit {
  readonly destination?: string | undefined
  /** Added to the record's own, or in their place. */
  readonly attributes?: Attributes | undefined
  readonly data?: Uint8Array | undefined
}

export interface DestinationStats {
  readonly destination: string
  readonly ready: number
  readonly waiting: number
  readonly leased: number
  readonly parked: number
  readonly published: number
}

export interface OutboxStats {
  readonly destinations: readonly DestinationStats[]
  /** Milliseconds since the oldest record was stored that is neither published nor parked. */
  readonly oldestAge: number | undefined
}

/** The operators' side; the same on every store. */
export interface OutboxAdmin {
  /** Oldest first. `after` is the `next` of an earlier page; anything else is refused. */
  list(filter: OutboxFilter, page: { readonly limit: number; readonly after?: string | undefined }): Promise<OutboxPage>
  get(id: string): Promise<OutboxRecord | undefined>
  /** Makes parked records ready again, with no attempts counted, and edited if asked for. Others are left alone, so that it is idempotent. Resolves to how many it was. */
  rearm(which: { readonly ids: readonly string[] } | { readonly filter: OutboxFilter }, edit?: OutboxEdit): Promise<number>
  /** Removes parked records for good. The reason is for the store's audit. Resolves to how many it was. */
  discard(ids: readonly string[], reason: string): Promise<number>
  stats(): Promise<OutboxStats>
  /** Removes at most `limit` published records that are older than `olderThan` milliseconds, and no others. Resolves to how many it was. */
  deletePublished(options: { readonly olderThan: number; readonly limit: number }): Promise<number>
}
