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
  /**
   * The cause that its last failure shares with other failures: the error code, and the text without numbers and ids. `undefined` for a record that has not failed, or failed at a relay
   * of an older version.
   */
  readonly cause: string | undefined
  readonly leasedUntil: number | undefined
  readonly publishedAt: number | undefined
  readonly parkedAt: number | undefined
  /**
   * The partition of its key, or of its id if it has none: with order per key, only the owner of the partition publishes it. `undefined`: the store has no partitions, or cannot
   * read the key.
   */
  readonly partition?: number | undefined
}

export interface OutboxFilter {
  readonly state?: OutboxState | undefined
  readonly destination?: string | undefined
  readonly type?: string | undefined
  /** The `partitionkey` of its message. */
  readonly orderingKey?: string | undefined
  /**
   * The `id` of its message, which several records have if an event goes to several destinations. SQL databases and the Lua outbox have an index for it, a Redis stream
   * outbox with `messageIndex: true`. Otherwise all records that match `destination`, and the state if it is `parked`, are read.
   */
  readonly messageId?: string | undefined
  /** The `cause` of its last failure. */
  readonly cause?: string | undefined
  /** Its last error contains this text, in upper or lower case. */
  readonly error?: string | undefined
  /** It was stored at least, and at most, this many milliseconds ago, by the store's clock. */
  readonly minAge?: number | undefined
  readonly maxAge?: number | undefined
  /** It is parked, and was parked at least this many milliseconds ago, by the store's clock: a long action leaves out records that are parked while it runs. */
  readonly minParkedAge?: number | undefined
}

export interface OutboxListOptions {
  readonly limit: number
  /** The `next` cursor of an earlier page; any other value is rejected. Default: the first page. */
  readonly after?: string | undefined
  /** Whether messages have their data. Without it the payloads, which may be large, are not sent by the database. Default: true. */
  readonly payloads?: boolean | undefined
}

/** A store may limit how many records it reads for a page: a page can have fewer records than `limit`, even none, and still not be the last one. */
export interface OutboxPage {
  readonly records: readonly OutboxRecord[]
  /** The cursor of the next page, to be passed to `list`; `undefined` if all records have been searched. The next page may be empty. */
  readonly next: string | undefined
  /** On a page that ends before its `limit`: all records that were stored until then have been searched. Milliseconds since the epoch, by the store's clock. Default: unknown. */
  readonly searchedUntil?: number | undefined
}

export interface OutboxEdit {
  readonly destination?: string | undefined
  /** Merged over the record's own attributes. */
  readonly attributes?: Attributes | undefined
  readonly data?: Uint8Array | undefined
}

/** Who does something, and why: for the audit of the store. */
export interface Operator {
  /** A name, such as that of the signed-in user. Default: unknown. */
  readonly by?: string | undefined
  readonly reason?: string | undefined
}

export interface RearmOptions extends Operator {
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
  /** Whether one of the numbers is the `limit` of the query, so that there may be more. Default: false. */
  readonly capped?: boolean | undefined
}

export interface OutboxStats {
  readonly destinations: readonly DestinationStats[]
  /** Age in milliseconds of the oldest record that is neither published nor parked. */
  readonly oldestAge: number | undefined
  /** The number of statements or scripts that were run for these numbers. The dashboard waits two seconds for each of them before it asks again. Default: 1. */
  readonly requests?: number | undefined
}

/** An error of one attempt. */
export interface RecordFailure {
  /** Milliseconds since the epoch, by the store's clock. */
  readonly at: number
  readonly error: string
}

export interface OutboxGroup {
  /** The cause, type or destination that its records share. */
  readonly name: string
  readonly count: number
  /** When the oldest and the latest of its records were stored: milliseconds since the epoch, by the store's clock. */
  readonly first: number
  readonly last: number
}

export interface OutboxGroups {
  /** The largest first. */
  readonly groups: readonly OutboxGroup[]
  /** Whether all records were read. If not, the numbers are lower limits. */
  readonly complete: boolean
}

/** A destination to which no relay publishes, because an operator has paused it. */
export interface DestinationPause extends Operator {
  readonly destination: string
  /** Milliseconds since the epoch, by the store's clock. */
  readonly since: number
  /** When it ends by itself; `undefined`: never. */
  readonly until: number | undefined
}

export interface PauseOptions extends Operator {
  /** Milliseconds after which the pause ends by itself. Default: it lasts until `resume()`. */
  readonly duration?: number | undefined
}

/** A relay that is alive, as it reported last. */
export interface RelayReport {
  readonly id: string
  readonly host: string
  readonly pid: number
  /** Milliseconds since the relay started. */
  readonly uptime: number
  /** Milliseconds since the report. */
  readonly age: number
  /** The destinations that it serves; `undefined`: all. */
  readonly destinations: readonly string[] | undefined
  /** Records that it is publishing or settling. */
  readonly inFlight: number
  /** Destinations that it has paused because they failed, and for how many milliseconds. */
  readonly down: readonly { readonly destination: string; readonly downFor: number }[]
  /** With order per key: how many partitions it owns. */
  readonly partitions: number | undefined
  /** Which they are, as a text such as `0-15, 32`. `undefined`: it owns none, or is a relay of an older version. */
  readonly ownedPartitions?: string | undefined
  /** Since the relay started. */
  readonly published: number
  readonly failed: number
  readonly parked: number
}

/** The counts of one relay for one destination, in about a minute. */
export interface OutboxRate {
  /** The end of the interval: milliseconds since the epoch, by the store's clock. */
  readonly at: number
  /** The length of the interval in milliseconds. */
  readonly duration: number
  readonly destination: string
  readonly published: number
  readonly failed: number
  readonly parked: number
}

/** The pauses, relays and rates that operators and relays have recorded in the store. */
export interface OutboxActivity {
  readonly pauses: readonly DestinationPause[]
  readonly relays: readonly RelayReport[]
  readonly rates: readonly OutboxRate[]
}

export interface AuditEntry extends Operator {
  readonly id: string
  /** Milliseconds since the epoch, by the store's clock. */
  readonly at: number
  /** `cancel`: by `cancelWaiting()`. `replay`: of published records, or of dead letters, which a broker has. */
  readonly action: 'rearm' | 'park' | 'discard' | 'cancel' | 'pause' | 'resume' | 'replay'
  /** The target of the action, as text for people: the filter, a destination, or the first ids. */
  readonly what: string
  /** How many records, also of an action that was stopped or failed midway; `undefined` if it has not ended, or its process did before it could say. */
  readonly count: number | undefined
  /** Why the action failed. */
  readonly error: string | undefined
}

/** The changes of records that make up one audited action: they write no entries of their own. */
export type AuditedSteps = Pick<OutboxAdmin, 'rearm' | 'park'> & {
  discard(ids: readonly string[], reason: string, operator?: Pick<Operator, 'by'>): Promise<number>
  cancelWaiting(ids: readonly string[], reason: string, operator?: Pick<Operator, 'by'>): Promise<number>
}

export type ChosenRecords = { readonly ids: readonly string[] } | { readonly filter: OutboxFilter }

/** The interface for operators; the same on every store. */
export interface OutboxAdmin {
  /**
   * Oldest first, also across pages. No page reads the whole outbox if few records match: the search is complete when a page has no `next`, not when a page has few
   * records or none.
   */
  list(filter: OutboxFilter, page: OutboxListOptions): Promise<OutboxPage>
  get(id: string): Promise<OutboxRecord | undefined>
  /**
   * Makes parked records ready to be published again, with their attempts reset to 0, and edited if `edit` is given. `options.state` selects
   * published records instead: they are published a second time, with the same message id. Records in any other state are not changed, so calling it
   * twice is safe. Resolves to the number of records.
   */
  rearm(which: ChosenRecords, edit?: OutboxEdit, options?: RearmOptions): Promise<number>
  /**
   * Parks records that are ready or waiting, so that no relay publishes them until they are re-armed. The reason becomes their `lastError`. Leased,
   * parked and published records are not changed. With order `perKey` a store may not know that a relay has a record in memory; such a record can
   * still be published after it was parked. Resolves to the number of records.
   */
  park(ids: readonly string[], reason: string, operator?: Pick<Operator, 'by'>): Promise<number>
  /** Deletes parked records permanently. The reason is for the store's audit. Resolves to the number of deleted records. */
  discard(which: readonly string[] | { readonly filter: OutboxFilter }, reason: string, operator?: Pick<Operator, 'by'>): Promise<number>
  /**
   * Counts the records by destination and state. `limit`: how many to count at most in each of them, so that an outbox with millions of records is not read as a whole.
   * Default: all.
   */
  stats(options?: { readonly limit?: number | undefined }): Promise<OutboxStats>
  /** Deletes at most `limit` published records that are older than `olderThan` milliseconds, and no others. Resolves to the number of deleted records. */
  deletePublished(options: { readonly olderThan: number; readonly limit: number }): Promise<number>

  // The following are optional: a store that an application wrote itself may lack them. All stores of Ackord have them.

  /**
   * Deletes records that wait for their time, delayed or backing off after a failure, before they are published. A record that is due, leased, parked or published is not
   * changed: it is too late, and the number shows it. The reason is for the store's audit. A transaction uses `OutboxWriter.cancel()` instead. Resolves to the number of
   * deleted records.
   */
  cancelWaiting?(
    which: readonly string[] | { readonly filter: OutboxFilter },
    reason: string,
    operator?: Pick<Operator, 'by'>,
  ): Promise<number>
  /** The records of a message id, in any state. At most 1,000. Uses an index as the filter `messageId` does. */
  find?(which: { readonly messageId: string }): Promise<readonly OutboxRecord[]>
  /**
   * Parked and waiting records by what they have in common: the `failure` that they had last (its `cause`), their type or their destination. Reads a bounded number of
   * records. Records that have not failed are not grouped by failure.
   */
  groups?(by: 'failure' | 'type' | 'destination', filter?: OutboxFilter): Promise<OutboxGroups>
  /** The last errors of a record, at most ten, the latest first. */
  history?(id: string): Promise<readonly RecordFailure[]>
  /** Stops all relays of the store from publishing to a destination: within about a second, and also relays that start later. Records that are in flight are still published. */
  pause?(destination: string, options?: PauseOptions): Promise<void>
  /** Ends a pause. Resolves to whether there was one. */
  resume?(destination: string, options?: Operator): Promise<boolean>
  pauses?(): Promise<readonly DestinationPause[]>
  /** The relays that have reported in the last half minute. */
  relays?(): Promise<readonly RelayReport[]>
  /** The rates at which relays have published in the last `maxAge` milliseconds, at most 24 hours, the latest first. At most 10,000. */
  rates?(options: { readonly maxAge: number }): Promise<readonly OutboxRate[]>
  /** The results of `pauses()`, `relays()` and `rates()`, read with one statement: for a page that shows them again and again. */
  activity?(options: { readonly maxAge: number }): Promise<OutboxActivity>
  /**
   * Does something as one entry of the audit: an action in many steps, or something that is not done to the store. The entry is written when the work begins, and again with
   * the number that it resolves to, or its error and how many records its steps have changed until then.
   */
  audited?(entry: Pick<AuditEntry, 'action' | 'what'> & Operator, work: (steps: AuditedSteps) => Promise<number>): Promise<number>
  /** The actions of operators in the last 90 days, the latest first. */
  audit?(options: { readonly limit: number }): Promise<readonly AuditEntry[]>
}
