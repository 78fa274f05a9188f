import { enter } from '@ackord/core'
import type { Database } from '@ackord/sql'
import { TransactionHost } from '@nestjs-cls/transactional'
import { contextOutside, type DatabaseTransactions, type TransactionalAdapterAckord } from './transactional-adapter-ackord.ts'

type HostOptions<Handle> = ConstructorParameters<typeof TransactionHost<TransactionalAdapterAckord<Handle>>>[0] &
  DatabaseTransactions<Handle>

/** A `TransactionHost` that takes part in every transaction of the database: those of messages and of `database.write()` too. */
export class AckordTransactionHost<Handle> extends TransactionHost<TransactionalAdapterAckord<Handle>> {
  readonly #database: Database<Handle>

  // Nest finds the token of the parameter at the base class.
  constructor(options: HostOptions<Handle>) {
    super(options)
    this.#database = options.database
  }

  override isTransactionActive(): boolean {
    return this.#database.transaction() !== undefined
  }

  override withoutTransaction<R>(work: () => Promise<R>): Promise<R> {
    return super.withoutTransaction(() => enter(contextOutside(), work))
  }
}
