import { AckordError, InvalidOptionError, type Logger, type Runtime, systemRuntime, TransactionRequiredError } from '@ackord/core'
import { checkAttributes } from '@ackord/core/broker'
import { checkCount, checkDuration, checkFunction, describeMessage, PartPorts, rejectUnknownOptions } from '@ackord/core/internal'
import {
  type CompleteAdministration,
  completeAdministration,
  completeReferences,
  defaultMaxSize,
  type EventReferences,
  eventCompleter,
  type NewEventOptions,
  type NewEvents,
  type OutboxNotes,
  type OutboxReader,
  type OutboxReference,
  type OutboxStore,
  type OutboxWriter,
  type RecordTaker,
  recordEncoder,
} from '@ackord/outbox'
import { appendTarget, type StorageOptions } from '../contract/database-options.ts'
import { explaining, explainMissing } from '../contract/dialect.ts'
import type { Notifications } from '../contract/driver.ts'
import type { OwnershipPort } from '../contract/store-dialect.ts'
import { failuresCheck, findVersion } from '../contract/table-version.ts'
import type { TableOptions } from '../contract/tables.ts'
import { orderedClaims } from '../ordering/ordered-claims.ts'
import { type Database, portOf } from '../transaction/database.ts'
import { type DatabasePort, foreignTransaction, type OpenTransaction } from '../transaction/open-transaction.ts'
import { besideSavepoints } from '../transaction/transaction-work.ts'
import { recordAppender } from './append-records.ts'
import { outboxAdministration, readPending } from './outbox-administration.ts'
import { outboxClaims } from './outbox-claims.ts'
import { outboxNotes } from './outbox-notes.ts'

export interface SqlOutboxOptions extends TableOptions, StorageOptions, NewEventOptions {
  /** Whether published records are kept until `deletePublished()`. Costs an update instead of a delete, and the space. In log mode they are kept for `keepPublished`, at no cost but the space. Default: false. */
  readonly retain?: boolean | undefined
  /** In log mode with `retain`: milliseconds for which published records are kept at least. A part of the log is emptied as a whole, when all of its records are older. Default: 24 hours. */
  readonly keepPublished?: number | undefined
  /**
   * The maximum bytes of a record: its data, its attributes as JSON and its destination. `append()` rejects a larger one before anything is written.
   * Default: 5 MB.
   */
  readonly maxSize?: number | undefined
  /**
   * Wakes relays when other processes commit, so that polling can be infrequent: `pgNotifications()`. Default: only this process wakes its relays.
   */
  readonly notifications?: Notifications | undefined
  /** Receives unreadable records and operator actions. Default: that of the relay or of the database. */
  readonly logger?: Logger | undefined
  /** Creates the tokens of leases. Leases use the database's own clock. Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** An outbox table: the interfaces for the relay, operators, writers and tests. */
export interface SqlOutbox<Handle> extends OutboxStore, CompleteAdministration, OutboxWriter<Handle>, OutboxReader<Handle> {
  readonly notes: OutboxNotes
  /** Deletes delayed records that are no longer wanted. Resolves to the number of deleted records. See `OutboxWriter.cancel()`. */
  cancel(transaction: Handle, references: EventReferences): Promise<number>
}

/** The outbox of a database. Does no I/O until it is used; `createSchema()` creates the table. */
export function sqlOutbox<Handle>(database: Database<Handle>, options: SqlOutboxOptions = {}): SqlOutbox<Handle> {
  const {
    retain = false,
    keepPublished,
    maxSize = defaultMaxSize,
    logger: givenLogger,
    runtime = systemRuntime,
    schema,
    names,
    order: askedOrder,
    mode: askedMode,
    notifications,
    source,
    destination,
    marshaler,
    codecs,
    codecTimeout,
    ...unknown
  } = options
  rejectUnknownOptions('sqlOutbox()', unknown)
  checkCount('maxSize', maxSize)
  if (notifications !== undefined) checkFunction('notifications.follow', notifications.follow)
  const complete = eventCompleter('sqlOutbox', { source, destination, marshaler }, runtime)
  const encode = recordEncoder({ codecs, codecTimeout }, runtime)
  const port = portOf(database)
  const { logger, inheritPorts } = new PartPorts({ logger: givenLogger ?? port.ports.logger }, [port.ports])
  const { dialect, wakeUps, takers } = port
  const storage = port.storage({ order: askedOrder, mode: askedMode })
  const { order, mode } = storage
  if (keepPublished !== undefined) {
    checkDuration('keepPublished', keepPublished)
    if (!retain || mode !== 'log') throw new InvalidOptionError('keepPublished', keepsNothing)
  }
  const tables = port.tables({ schema, names })
  const table = tables.outbox
  // The store uses the handle of the driver, whatever its type.
  const driver = port.driver as DatabasePort<unknown>['driver']
  const keepsFailures = failuresCheck(() => findVersion(port, tables), runtime)
  const storePort = { driver, table, tables, retain, keepsFailures }
  const explain = (error: unknown) => explainMissing(dialect, error, table)
  // Present: the order was checked.
  const ownership = order === 'perKey' ? dialect.store.ownership?.(storePort) : undefined
  const log = mode === 'log' ? dialect.store.log : undefined
  const logClaims = log && explaining(log.claims(storePort, { keep: keepPublished }), (error) => explainMissing(dialect, error, tables.log))
  const administrationOf = (statements: OwnershipPort) =>
    outboxAdministration(explaining((log ?? dialect.store).administration(statements), explain), { table, logger })
  const claims =
    ownership === undefined
      ? outboxClaims(explaining(dialect.store.claims(storePort), explain), { runtime, logger })
      : orderedClaims(explaining(ownership, explain), { runtime, logger, log: logClaims })
  const noteStatements = explaining(dialect.store.notes(driver, tables.notes), (error) => explainMissing(dialect, error, tables.notes))
  const notes = outboxNotes(noteStatements, { table: tables.notes, exists: keepsFailures })
  const administration = completeAdministration(administrationOf(storePort), { notes, runtime })
  const appendRecords = recordAppender(port, { target: appendTarget(tables, storage), order, maxSize, runtime })
  const preLease = order === 'none' && dialect.leasedAppender !== undefined

  async function appendTo(opened: OpenTransaction<Handle>, events: NewEvents): Promise<void> {
    const records = complete(events)
    // An unreadable record would be parked long after its transaction has ended.
    for (const { message } of records) checkAttributes(message.attributes, () => describeMessage(message))
    // Before the turn of the append: savepoints need not wait for an upload.
    const encoded = encode === undefined ? records : await encode(records, opened.own ?? (opened.handle as object))
    await besideSavepoints(port, opened, async () => await appendRecords(opened, encoded))
  }

  async function cancelIn(opened: OpenTransaction<Handle>, references: readonly OutboxReference[]): Promise<number> {
    if (references.length === 0) return 0
    return await besideSavepoints(port, opened, async () => {
      // With group commit, appended records are stored now, so that they can be found.
      await opened.own?.flush?.()
      try {
        return await opened.change(log === undefined ? dialect.store.cancel(table, references) : log.cancel(tables, references))
      } catch (error) {
        throw explain(error)
      }
    })
  }

  return {
    capabilities: { order, delay: true, preLease, notifies: notifications !== undefined },
    inheritPorts,
    notes,
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

    /** In a transaction of the library, or one of the caller. */
    append(transaction: Handle, events: NewEvents) {
      const ours = port.behind(transaction)
      // Started immediately, and watched: a handler that does not await it may return before its first step.
      if (ours?.own !== undefined) return ours.watch(() => appendTo(ours, events))
      return openTransactionOf(port, transaction, 'append()').then((opened) => appendTo(opened, events))
    },

    /** In a transaction of the library, or one of the caller. */
    cancel(transaction: Handle, given: EventReferences) {
      const references = completeReferences(given, { source, destination })
      const ours = port.behind(transaction)
      if (ours?.own !== undefined) return ours.watch(() => cancelIn(ours, references))
      return openTransactionOf(port, transaction, 'cancel()').then((opened) => cancelIn(opened, references))
    },

    /** With group commit the records of a message are stored when its group ends, so they are not visible here. */
    async readAppended(transaction: Handle) {
      await openTransactionOf(port, transaction, 'readAppended()')
      return await readPending(storePort, transaction, administrationOf)
    },

    ...(preLease ? { attach: (taker: RecordTaker) => takers.attach(table, taker) } : {}),

    wakeUps({ signal }) {
      void notifications?.follow(table, () => wakeUps.wake(), { signal, runtime, logger })
      return wakeUps.listen(signal)
    },
  }
}

const keepsNothing =
  "applies to `retain: true` in log mode only. In table mode published records are kept until they are deleted: by the relay's `cleanup.keepPublished`, or by `startCleanup()`."

/** Rejects a handle that is not in a transaction: the records would be stored whether or not the business writes are. */
async function openTransactionOf<Handle>(
  port: DatabasePort<Handle>,
  transaction: Handle,
  caller: string,
): Promise<OpenTransaction<Handle>> {
  const { driver, dialect, behind } = port
  if (transaction === undefined || transaction === null) throw new TransactionRequiredError(caller)
  if (transaction === driver.pool) throw notInTransaction(caller, 'it was called with the pool itself')
  const ours = behind(transaction)
  // A transaction of the user may have ended since withTransaction() was called.
  if (ours?.own !== undefined) return ours
  const known =
    driver.inTransaction(transaction) ?? (await dialect.store.inTransaction(driver as DatabasePort<unknown>['driver'], transaction))
  if (!known) throw notInTransaction(caller, 'its client is not in a transaction')
  return foreignTransaction(driver, transaction)
}

function notInTransaction(caller: string, problem: string): AckordError {
  return new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    `${caller} needs a running transaction, and ${problem}. Begin one, and pass the client that did to ${caller}.`,
  )
}
