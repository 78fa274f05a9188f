import type { Context, Middleware, RawMessage } from '@ackord/core'
import type { Scenario } from '../scenario.ts'

/** What an implementation claims beyond the base. Each claim adds scenarios; none takes one away. */
export interface TransactionFeatures {
  /** A transaction inside of a transaction is a savepoint. */
  readonly savepoints: boolean
  /** The world has `failCommit()`. */
  readonly failCommit: boolean
}

/**
 * A store of its own for one scenario, empty at first, with the middleware under test. Disposing it removes what it made.
 * A store with a single connection works: scenarios read only when no handler is inside of a transaction.
 */
export interface TransactionWorld extends AsyncDisposable {
  /** The transaction alone. */
  transaction(): Middleware
  /** Transaction, inbox and outbox in the order that is right for the store. The outbox takes all outputs, as JSON. */
  transactional(consumer: string): Middleware
  /** A business write through the transaction that this context is in, as a repository makes it. */
  write(context: Context, key: string, value: string): Promise<void>
  /** A business write that the store refuses. It rejects, always. */
  failWrite(context: Context): Promise<void>
  /** Makes the commit of the transaction that this context is in fail, such as by a constraint that is checked there. */
  failCommit?(context: Context): Promise<void>
  /** What is committed under the key. Called outside of transactions. */
  read(key: string): Promise<string | undefined>
  /** The events that are committed in the outbox, oldest first. Called outside of transactions. */
  events(): Promise<readonly RawMessage[]>
}

export type OpenTransactionWorld = () => Promise<TransactionWorld>
export type TransactionScenario = Scenario<OpenTransactionWorld>
