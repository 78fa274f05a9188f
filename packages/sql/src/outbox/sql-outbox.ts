import {
  AckordError,
  checkAttributes,
  consoleLogger,
  type Logger,
  type Runtime,
  systemRuntime,
  TransactionRequiredError,
} from '@ackord/core'
import { checkCount, checkFunction, checkNoMore, guardLogger, nameOf } from '@ackord/core/internal'
import {
  checkReferences,
  defaultMaxSize,
  type NewOutboxRecord,
  type OutboxAdmin,
  type OutboxReader,
  type OutboxReference,
  type OutboxStore,
  type OutboxWriter,
  type RecordTaker,
} from '@ackord/outbox'
import type { OrderOptions, TableOptions } from '../contract/database-options.ts'
import type { Notifications } from '../contract/notifications.ts'
import { explainMissing } from '../contract/schema-missing.ts'
import { orderedClaims } from '../ordering/ordered-claims.ts'
import { type Database, portOf } from '../transaction/database.ts'
import { type DatabasePort, foreignTransaction, type OpenTransaction } from '../transaction/open-transaction.ts'
import { besideSavepoints } from '../transaction/savepoint.ts'
import { recordAppender } from './append-records.ts'
import { outboxAdministration, readPending } from './outbox-administration.ts'
import { outboxClaims } from './outbox-claims.ts'

export interface SqlOutboxOptions extends TableOptions, OrderOptions {
  /** Whether published records are kept until `deletePublished()`. It costs an update instead of a delete, and the space. Default: false. */
  readonly retain?: boolean | undefined
  /** The most bytes of a record: of its data, its attributes as JSON and its destination. `append()` refuses a larger one, before anything is written. Default: 5 MB. */
  readonly maxSize?: number | undefined
  /** Hears of what other processes commit, so that polling need not be frequent: `pgNotifications()`. Default: only this process wakes its relays. */
  readonly notifications?: Notifications | undefined
  /** Told of records that cannot be read and of what operators do. Default: `consoleLogger`. */
  readonly logger?: Logger | undefined
  /** Makes the tokens of leases. Leases are by the database's own clock. Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** An outbox table: the relay's side, the operators', the writing one, and the one that tests look at. */
export interface SqlOutbox<Handle> extends OutboxStore, OutboxAdmin, OutboxWriter<Handle>, OutboxReader<Handle> {
  /** Removes delayed records that are no longer wanted. Resolves to their number. See `OutboxWriter.cancel()`. */
  cancel(transaction: Handle, references: readonly OutboxReference[]): Promise<number>
}

/** The outbox of a database. Does no I/O until it is used; the table is `createSchema()`'s. */
export function sqlOutbox<Handle>(database: Database<Handle>, options: SqlOutboxOptions = {}): SqlOutbox<Handle> {
  const {
    retain = false,
    maxSize = defaultMaxSize,
    logger: givenLogger = consoleLogger,
    runtime = systemRuntime,
    schema,
    names,
    order: asked,
    notifications,
    ...unknown
  } = options
  checkNoMore('sqlOutbox()', unknown)
  checkCount('maxSize', maxSize)
  if (notifications !== undefined) checkFunction('notifications.follow', notifications.follow)
  const logger = guardLogger(givenLogger)
  const port = portOf(database)
  const { dialect, wakeUps, takers } = port
  const order = port.order(asked)
  const tables = port.tables({ schema, names })
  const table = tables.outbox
  // The store uses the handle as the driver gives it, whatever its type.
  const storePort = { driver: port.driver as DatabasePort<unknown>['driver'], table, retain }
  const explain = (error: unknown) => explainMissing(dialect, error, table)
  // It is there: the order was checked.
  const ownership = order === 'perKey' ? dialect.store.ownership?.({ ...storePort, tables }) : undefined
  const claims =
    ownership === undefined
      ? outboxClaims(explaining(dialect.store.claims(storePort), explain), { runtime, logger })
      : orderedClaims(explaining(ownership, explain), { runtime, logger })
  const administration = outboxAdministration(explaining(dialect.store.administration(storePort), explain), { table, logger })
  const appendRecords = recordAppender(port, { table, order, maxSize, runtime })
  const preLease = order === 'none' && dialect.leasedAppender !== undefined

  async function appendTo(opened: OpenTransaction<Handle>, records: readonly NewOutboxRecord[]): Promise<void> {
    // What could not be read back would be parked long after its transaction has ended.
    for (const { message } of records) checkAttributes(message.attributes, () => nameOf(message))
    await besideSavepoints(port, opened, async () => await appendRecords(opened, records))
  }

  async function cancelIn(opened: OpenTransaction<Handle>, references: readonly OutboxReference[]): Promise<number> {
    if (references.length === 0) return 0
    return await besideSavepoints(port, opened, async () => {
      // With group commit, what was appended is stored now, so that it can be found.
      await opened.own?.flush?.()
      try {
        return await opened.change(dialect.store.cancel(table, references))
      } catch (error) {
        throw explain(error)
      }
    })
  }

  return {
    capabilities: { order, delay: true, preLease, notifies: notifications !== undefined },
    ...claims,
    ...administration,

    async release(held) {
      await claims.release(held)
      wakeUps.wake()
    },

    async rearm(which, edit, rearming) {
      const count = await administration.rearm(which, edit, rearming)
      if (count > 0) wakeUps.wake()
      return count
    },

    /** In a transaction of ours, or one of the caller's own. */
    append(transaction: Handle, records: readonly NewOutboxRecord[]) {
      const ours = port.behind(transaction)
      // At once, and watched: a handler that does not await it may return before its first step.
      if (ours?.own !== undefined) return ours.watch(() => appendTo(ours, records))
      return openTransactionOf(port, transaction, 'append()').then((opened) => appendTo(opened, records))
    },

    /** In a transaction of ours, or one of the caller's own. */
    cancel(transaction: Handle, references: readonly OutboxReference[]) {
      checkReferences(references)
      const ours = port.behind(transaction)
      if (ours?.own !== undefined) return ours.watch(() => cancelIn(ours, references))
      return openTransactionOf(port, transaction, 'cancel()').then((opened) => cancelIn(opened, references))
    },

    /** With group commit the records of a message are stored when its group ends, and so cannot be seen here. */
    async readAppended(transaction: Handle) {
      await openTransactionOf(port, transaction, 'readAppended()')
      return await readPending(storePort, transaction, (statements) =>
        outboxAdministration(explaining(dialect.store.administration(statements), explain), { table, logger }),
      )
    },

    ...(preLease ? { attach: (taker: RecordTaker) => takers.attach(table, taker) } : {}),

    wakeUps({ signal }) {
      void notifications?.follow(table, () => wakeUps.wake(), { signal, runtime, logger })
      return wakeUps.listen(signal)
    },
  }
}

/** The same statements, with better errors. */
function explaining<Statements extends object>(statements: Statements, explain: (error: unknown) => unknown): Statements {
  const wrapped = Object.entries(statements).map(([name, call]) => [
    name,
    async (...given: unknown[]) => {
      try {
        return await (call as (...given: unknown[]) => Promise<unknown>)(...given)
      } catch (error) {
        throw explain(error)
      }
    },
  ])
  // Each under its own name, with the same parameters and result.
  return Object.fromEntries(wrapped) as Statements
}

/** Refuses what is not a running transaction: there, the records would be stored whether or not the business writes are. */
async function openTransactionOf<Handle>(
  port: DatabasePort<Handle>,
  transaction: Handle,
  caller: string,
): Promise<OpenTransaction<Handle>> {
  const { driver, dialect, behind } = port
  if (transaction === undefined || transaction === null) throw new TransactionRequiredError(caller)
  if (transaction === driver.pool) throw notInTransaction(caller, 'it was given the pool itself')
  const ours = behind(transaction)
  // One of the user's own may have ended since withTransaction() was told of it.
  if (ours?.own !== undefined) return ours
  const known =
    driver.inTransaction(transaction) ?? (await dialect.store.inTransaction(driver as DatabasePort<unknown>['driver'], transaction))
  if (!known) throw notInTransaction(caller, 'the client that it was given is in none')
  return foreignTransaction(driver, transaction)
}

function notInTransaction(caller: string, problem: string): AckordError {
  return new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    `${caller} needs a running transaction, and ${problem}. Begin one, and give ${caller} the client that did.`,
  )
}
