import { type Logger, rootContext } from '@ackord/core'
import { checkName, guardLogger, rejectUnknownOptions } from '@ackord/core/internal'
import { type InboxAdmin, type InboxEntry, type InboxKey, type InboxQuery, OperatorLog } from '@ackord/outbox'
import { explainMissing } from '../contract/dialect.ts'
import type { Driver } from '../contract/driver.ts'
import type { TableOptions } from '../contract/tables.ts'
import type { Row } from '../records/row.ts'
import { problemOf } from '../records/text-limits.ts'
import { type Database, portOf } from '../transaction/database.ts'

export interface SqlInboxOptions extends TableOptions {
  /** Receives operator actions. Default: the logger of the database. */
  readonly logger?: Logger | undefined
}

/**
 * The inbox of a database, for operators. Does no I/O until it is used. Finding a message by its id alone takes one step in the primary key per consumer
 * and source that the inbox has entries of: fast, unless every message has a source of its own.
 */
export function sqlInbox<Handle>(database: Database<Handle>, options: SqlInboxOptions = {}): InboxAdmin {
  const { logger, schema, names, ...unknown } = options
  rejectUnknownOptions('sqlInbox()', unknown)
  const { dialect, driver: ownDriver, tables, ports } = portOf(database)
  // The statements use the handle of the driver, whatever its type.
  const driver = ownDriver as Driver<unknown>
  const table = tables({ schema, names }).inbox
  const log = new OperatorLog(logger === undefined ? ports.logger : guardLogger(logger), { table })

  async function find(id: string, query: InboxQuery): Promise<readonly InboxEntry[]> {
    checkName('id', id)
    const { consumer, source } = query
    if (consumer !== undefined) checkName('consumer', consumer)
    // The inbox rejects messages with such a key, so there is no entry.
    if ([id, consumer ?? '', source ?? ''].some((part) => problemOf(part) !== undefined)) return []
    try {
      return (await dialect.store.findInbox(driver, table, id, query)).map(entryOf)
    } catch (error) {
      throw explainMissing(dialect, error, table)
    }
  }

  return {
    find: (id, query = {}) => find(id, query),

    async forget(id, which) {
      checkName('consumer', which.consumer)
      const keys: readonly InboxKey[] = (await find(id, which)).map(({ consumer, source, id: own }) => ({ consumer, source, id: own }))
      if (keys.length === 0) return 0
      const forgotten = await driver.transaction([], (session) => dialect.forgetAll(session, table, keys), rootContext().signal)
      log.forgotten(forgotten)
      return forgotten.length
    },
  }
}

function entryOf(row: Row): InboxEntry {
  return {
    consumer: String(row['consumer']),
    source: String(row['source']),
    id: String(row['id']),
    // The row of a message in progress is not committed yet.
    state: 'handled',
    handledAt: Number(row['received_at']),
    expiresAt: undefined,
  }
}
