import type { Attributes, RawMessage } from '@ackord/core'

/** `waiting`: delayed, or backing off after a failure. `leased`: claimed by a relay. */
export type OutboxState = 'ready' | 'waiting' | 'leased' | 'parked' | 'published'

/** A record as operators see it. Instants are milliseconds since the epoch, by the store's clock. */
export interface OutboxRecord {
  readonly id: string
  readonly state: OutboxState
  readonly destination: string
  /** The message has no acking: it cannot be settled. */
  readonly message: RawMessage
  readonly attempts: number
  readonly createdAt: number
  /** When the record may be claimed. */
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
  /**
   * The `id` of its message, which several records have if an event goes to several destinations. Only MySQL and MariaDB have an index for it: the
   * other stores read all records that match the other criteria, so a `state` or `destination` makes the search cheaper.
   */
  readonly messageId?: string | undefined
}

export interface OutboxPage {
  readonly records: readonly OutboxRecord[]
  /** The cursor of the next page, to be passed to `list`; `undefined` on the last page. */
  readonly next: string | undefined
}

export interface OutboxEdit {
  readonly destination?: string | undefined
  /** Merged over the record's own attributes. */
  readonly attributes?: Attributes | undefined
  readonly data?: Uint8Array | undefined
}

export interface RearmOptions {
  /** Which records to publish again: those that are parked, or those that were published and kept by `retain`. Default: `parked`. */
  readonly state?: 'parked' | 'published' | undefined
  /** Milliseconds before the records may be published, by the store's clock. Requires a store that supports `delay`. Default: none. */
  readonly delay?: number | undefined
  /** Whether earlier attempts still count towards the relay's `maxAttempts`. Default: false, attempts are reset to 0. */
  readonly keepAttempts?: boolean | undefined
}

export interface DestinationStats {
  readonly destination: string
  readonly ready: number
  readonly waiting: number
  readonly leased: number
  readonly parked: number
  readonly published: number
  /** Age in milliseconds of its oldest record that is neither published nor parked; `undefined` if it has none. */
  readonly oldestAge: number | undefined
}

export interface OutboxStats {
  readonly destinations: readonly DestinationStats[]
  /** Age in milliseconds of the oldest record that is neither published nor parked. */
  readonly oldestAge: number | undefined
}

/** The interface for operators; the same on every store. */
export interface OutboxAdmin {
  /** Oldest first. `after` is the `next` cursor of an earlier page; any other value is rejected. */
  list(filter: OutboxFilter, page: { readonly limit: number; readonly after?: string | undefined }): Promise<OutboxPage>
  get(id: string): Promise<OutboxRecord | undefined>
  /**
   * Makes parked records ready to be published again, with their attempts reset to 0, and edited if `edit` is given. `options.state` selects
   * published records instead: they are published a second time, with the same message id. Records in any other state are not changed, so calling it
   * twice is safe. Resolves to the number of records.
   */
  rearm(
    which: { readonly ids: readonly string[] } | { readonly filter: OutboxFilter },
    edit?: OutboxEdit,
    options?: RearmOptions,
  ): Promise<number>
  /**
   * Parks records that are ready or waiting, so that no relay publishes them until they are re-armed. The reason becomes their `lastError`. Leased,
   * parked and published records are not changed. With order `perKey` a store may not know that a relay has a record in memory; such a record can
   * still be published after it was parked. Resolves to the number of records.
   */
  park(ids: readonly string[], reason: string): Promise<number>
  /** Deletes parked records permanently. The reason is for the store's audit. Resolves to the number of deleted records. */
  discard(ids: readonly string[], reason: string): Promise<number>
  stats(): Promise<OutboxStats>
  /** Deletes at most `limit` published records that are older than `olderThan` milliseconds, and no others. Resolves to the number of deleted records. */
  deletePublished(options: { readonly olderThan: number; readonly limit: number }): Promise<number>
}
