import type { Context } from '@ackord/core'
import { currentContext, rootContext } from '@ackord/core'
import type { Database, TransactionOptions } from '@ackord/sql'
import type { TransactionalAdapter, TransactionalAdapterOptions } from '@nestjs-cls/transactional'

/** The options that the adapter passes to its `TransactionHost`. */
export interface DatabaseTransactions<Handle> extends TransactionalAdapterOptions<Handle, TransactionOptions> {
  readonly database: Database<Handle>
}

/**
 * Runs the transactions of `@nestjs-cls/transactional` as transactions of a `Database`. Also names the type of `TransactionHost.tx`:
 * `TransactionHost<TransactionalAdapterAckord<EntityManager>>`. Use it with `ClsPluginAckord`, whose host knows the transactions of messages.
 */
export class TransactionalAdapterAckord<Handle> implements TransactionalAdapter<Database<Handle>, Handle, TransactionOptions> {
  readonly connectionToken: unknown
  readonly defaultTxOptions: Partial<TransactionOptions>

  constructor(databaseToken: unknown, defaultTxOptions: TransactionOptions = {}) {
    this.connectionToken = databaseToken
    this.defaultTxOptions = defaultTxOptions
  }

  optionsFactory(database: Database<Handle>): DatabaseTransactions<Handle> {
    // The handle is not passed to nestjs-cls: the context of Ackord has it, and two records of the same transaction could differ.
    return {
      database,
      wrapWithTransaction: (options, work) => database.write(() => work(), { ...options, context: contextOutside() }),
      wrapWithNestedTransaction: (options, work) => database.write(() => work(), options),
      getFallbackInstance: () => database.executor(),
    }
  }
}

/** A context outside of the current transaction that is cancelled together with the current one. */
export function contextOutside(): Context {
  const current = currentContext()
  return rootContext({ signal: current?.signal, deadline: current?.deadline })
}
