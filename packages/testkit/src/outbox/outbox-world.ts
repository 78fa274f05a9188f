import type { NewOutboxRecord, OutboxAdmin, OutboxStore } from '@ackord/outbox'
import type { Scenario } from '../scenario.ts'

/** What an implementation claims beyond the base. Each claim adds scenarios; none takes one away. */
export interface OutboxFeatures {
  /** Transactions have savepoints. */
  readonly savepoints: boolean
  /** `delay` is kept, as `capabilities.delay` says. */
  readonly delay: boolean
  /** Published records can be kept, until `deletePublished()`. */
  readonly retain: boolean
}

/** A transaction on the store, while it runs. */
export interface OutboxTransaction {
  /** The writer's `append()` with this transaction. */
  append(records: readonly NewOutboxRecord[]): Promise<void>
  /** Runs the work inside a savepoint: released if it resolves; rolled back if it rejects, with the same error. Only with `savepoints`. */
  savepoint?(work: () => Promise<void>): Promise<void>
}

/** A transaction that its holder ends. */
export interface OpenOutboxTransaction extends OutboxTransaction {
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** An outbox of its own for one scenario, empty at first. Disposing it removes what it made. */
export interface OutboxWorld extends AsyncDisposable {
  readonly store: OutboxStore & OutboxAdmin
  /** Another store object on the same data, as another process has it: with its own connection where there are connections. */
  another(): Promise<OutboxStore & OutboxAdmin>
  /** Commits if the work resolves. If it rejects, rolls back and rejects with the same error. */
  transaction(work: (transaction: OutboxTransaction) => Promise<void>): Promise<void>
  /** Begins a transaction that runs beside others. Left out where there is one writer at a time. */
  openTransaction?(): Promise<OpenOutboxTransaction>
  /**
   * Afterwards the store is as it would be `duration` milliseconds later. A store with its own clock does not wait: it moves all stored
   * instants (created, available, leased until, published, parked, and until when a member of the
   * partitions counts as alive) back by as much.
   */
  advance(duration: number): Promise<void>
}

export interface OutboxWorldOptions {
  /** Whether published records are kept. Asked for only with the feature `retain`. */
  readonly retain: boolean
}

export type OpenOutboxWorld = (options: OutboxWorldOptions) => Promise<OutboxWorld>
export type OutboxScenario = Scenario<OpenOutboxWorld>
