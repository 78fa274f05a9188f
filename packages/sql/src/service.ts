import { Service, type ServiceOptions } from '@ackord/outbox/service'
import type { GroupCommitOptions } from './group-commit/group-commit.ts'
import type { InboxOptions } from './inbox/inbox.ts'
import { type SqlOutbox, type SqlOutboxOptions, sqlOutbox } from './outbox/sql-outbox.ts'
import { type CleanupOptions, startCleanup } from './schema/cleanup.ts'
import type { Database } from './transaction/database.ts'
import type { TransactionOptions } from './transaction/run-transaction.ts'
import { transactional } from './transactional.ts'

export type { RunUntilSignalOptions, ServiceHealth, ServicePorts } from '@ackord/outbox/service'
export { Service } from '@ackord/outbox/service'

type Ports = 'logger' | 'metrics' | 'runtime'

export interface SqlServiceOptions<Handle> extends ServiceOptions {
  /** Holds the business data, the inbox and the outbox, such as `fromPg(pool)`. `createSchema()` creates the tables. */
  readonly database: Database<Handle>
  /** Further options of the outbox. */
  readonly outbox?: Omit<SqlOutboxOptions, Ports | 'source' | 'destination' | 'marshaler' | 'codecs' | 'codecTimeout'> | undefined
  /** Further options of the inbox. */
  readonly inbox?: Omit<InboxOptions, Ports | 'consumer'> | undefined
  /** Further options of the transaction of a message. */
  readonly transaction?: Omit<TransactionOptions, Ports> | undefined
  /** Lets messages that wait at the same time share a transaction. Default: off. */
  readonly groupCommit?: GroupCommitOptions | undefined
  /** Options of the cleanup of inbox and outbox; `false`: another process deletes old rows. Default: `startCleanup()` with its defaults. */
  readonly cleanup?: Omit<CleanupOptions, Ports> | false | undefined
}

/**
 * A service on a SQL database: handles the messages of a source once each, stores their events with the business writes, and publishes them.
 *
 *     const service = createService({ database, consumer: 'orders', source, handlers: [placeOrderHandler], publisher, destination: 'order-events' })
 *     await service.runUntilSignal()
 */
export function createService<Handle>(options: SqlServiceOptions<Handle>): Service<SqlOutbox<Handle>> {
  const { database, outbox: outboxOptions, inbox, transaction, groupCommit, cleanup, ...common } = options
  const { destination, eventSource, marshaler, codecs, codecTimeout } = common
  return new Service(({ logger, metrics, runtime }) => {
    const tables = { schema: outboxOptions?.schema, names: outboxOptions?.names }
    return {
      outbox: sqlOutbox(database, {
        ...outboxOptions,
        source: eventSource,
        destination,
        marshaler,
        codecs,
        codecTimeout,
        logger,
        runtime,
      }),
      transactional: (name, outputs) =>
        transactional(database, {
          transaction: { ...transaction, logger, metrics },
          inbox: { ...tables, ...inbox, consumer: name, logger, metrics },
          outbox: {
            ...tables,
            order: outboxOptions?.order,
            mode: outboxOptions?.mode,
            maxSize: outboxOptions?.maxSize,
            ...outputs,
            source: eventSource,
            runtime,
          },
          groupCommit,
        }),
      ...(cleanup === false ? {} : { startCleanup: () => startCleanup(database, { ...tables, ...cleanup, logger, metrics, runtime }) }),
    }
  }, common)
}
