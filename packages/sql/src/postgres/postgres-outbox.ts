import {
  AckordError,
  checkAttributes,
  consoleLogger,
  type Logger,
  type Runtime,
  systemRuntime,
  TransactionRequiredError,
} from '@ackord/core'
import { checkNoMore, guardLogger, nameOf } from '@ackord/core/internal'
import type { NewOutboxRecord, OutboxAdmin, OutboxStore, OutboxWriter } from '@ackord/outbox'
import { recordAppender } from '../append-records.ts'
import { type Database, portOf } from '../database.ts'
import { type DatabasePort, foreignTransaction, type OpenTransaction } from '../open-transaction.ts'
import { explainMissing } from '../schema-missing.ts'
import type { TableOptions } from '../tables.ts'
import { outboxAdministration } from './outbox-administration.ts'
import { outboxClaims } from './outbox-claims.ts'
import { sqlStateOf } from './sql-state.ts'

export interface PostgresOutboxOptions extends TableOptions {
  /** Whether published records are kept until `deletePublished()`. It costs an update instead of a delete, and the space. Default: false. */
  readonly retain?: boolean | undefined
  /** Told of records that cannot be read and of what operators do. Default: `consoleLogger`. */
  readonly logger?: Logger | undefined
  /** Makes the tokens of leases. Time is the database's own. Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** An outbox table: the relay's side, the operators', and the writing one. */
export interface PostgresOutbox<Handle> extends OutboxStore, OutboxAdmin, OutboxWriter<Handle> {}

/** The outbox of a PostgreSQL database. Does no I/O until it is used; the table is `createSchema()`'s. */
export function postgresOutbox<Handle>(database: Database<Handle>, options: PostgresOutboxOptions = {}): PostgresOutbox<Handle> {
  const { retain = false, logger: givenLogger = consoleLogger, runtime = systemRuntime, schema, names, ...unknown } = options
  checkNoMore('postgresOutbox()', unknown)
  const logger = guardLogger(givenLogger)
  const port = portOf(database)
  const { driver, dialect, wakeUps } = port
  const table = port.tables({ schema, names }).outbox

  async function run(sql: string, parameters: readonly unknown[] = []) {
    try {
      return await driver.run(driver.pool, sql, parameters)
    } catch (error) {
      throw explainMissing(dialect, error, table)
    }
  }

  const claims = outboxClaims(run, table, { retain, runtime, logger })
  const appendRecords = recordAppender(port, table)
  const administration = outboxAdministration(driver, run, table, { logger })
  return {
    capabilities: { order: 'none', delay: true, preLease: false },
    ...claims,
    ...administration,

    async release(held) {
      await claims.release(held)
      wakeUps.wake()
    },

    async rearm(which, edit) {
      const count = await administration.rearm(which, edit)
      if (count > 0) wakeUps.wake()
      return count
    },

    /** In a transaction of the middleware, or one of the caller's own. */
    async append(transaction: Handle, records: readonly NewOutboxRecord[]) {
      const opened = await openTransactionOf(port, transaction)
      // What could not be read back would be parked long after its transaction has ended.
      for (const { message } of records) checkAttributes(message.attributes, nameOf(message))
      await appendRecords(opened, records)
    },

    wakeUps: ({ signal }) => wakeUps.listen(signal),
  }
}

/** Refuses what is not a running transaction: there, the records would be stored whether or not the business writes are. */
async function openTransactionOf<Handle>({ driver, behind }: DatabasePort<Handle>, transaction: Handle): Promise<OpenTransaction<Handle>> {
  if (transaction === undefined || transaction === null) throw new TransactionRequiredError('append()')
  if (transaction === driver.pool) throw notInTransaction('it was given the pool itself')
  const ours = behind(transaction)
  if (ours !== undefined) return ours
  const opened = foreignTransaction(driver, transaction)
  const known = driver.inTransaction(transaction)
  if (known === true) return opened
  if (known === false) throw notInTransaction('the client that it was given is in none')
  try {
    // Fails outside of a transaction, on every client, whatever it hides.
    await driver.run(transaction, 'SAVEPOINT ackord_append', [])
    await driver.run(transaction, 'RELEASE SAVEPOINT ackord_append', [])
  } catch (error) {
    throw sqlStateOf(error) === '25P01' ? notInTransaction('the client that it was given is in none', error) : error
  }
  return opened
}

function notInTransaction(problem: string, cause?: unknown): AckordError {
  const text = `append() needs a running transaction, and ${problem}. Begin one, and give append() the client that did.`
  return new AckordError('ACKORD_TRANSACTION_REQUIRED', text, cause === undefined ? {} : { cause })
}
