import { type Context, InvalidOptionError, TransactionRequiredError } from '@ackord/core'
import { checkDuration, rejectUnknownOptions } from '@ackord/core/internal'
import {
  checkProcessKey,
  checkProcessQuery,
  type ProcessAdmin,
  type ProcessKey,
  type ProcessRecord,
  type ProcessStore,
  processConflict,
  type StoredProcess,
} from '@ackord/outbox'
import { explainMissing } from '../contract/dialect.ts'
import type { RunStatement } from '../contract/driver.ts'
import type { TableOptions } from '../contract/tables.ts'
import type { Row } from '../records/row.ts'
import { type Database, portOf } from '../transaction/database.ts'
import { besideSavepoints } from '../transaction/transaction-work.ts'

export interface SqlProcessesOptions extends TableOptions {}

/** The instances of processes in a table of the database. */
export interface SqlProcesses extends ProcessStore, ProcessAdmin {}

/**
 * Keeps the instances of processes in a table of the database: `router.handleAll(...orderProcess.handlers(sqlProcesses(database)))`. Does no I/O until it is used; `createSchema()`
 * creates the table, and the cleanup deletes old instances. An event costs a read and a write more than an ordinary message.
 *
 * An instance is locked while an event of it is handled, so that others wait instead of conflicting: on PostgreSQL and MySQL by its row, on SQLite by the one lock of the file.
 */
export function sqlProcesses<Handle>(database: Database<Handle>, options: SqlProcessesOptions = {}): SqlProcesses {
  const { schema, names, ...unknown } = options
  rejectUnknownOptions('sqlProcesses()', unknown)
  const port = portOf(database)
  const { dialect, driver, find } = port
  const table = port.tables({ schema, names }).process
  const statements = dialect.store.processes(table)

  /** Runs statements, in the transaction of this context. */
  async function inTransaction<R>(caller: string, context: Context, work: (run: RunStatement) => Promise<R>): Promise<R> {
    const transaction = find(context)
    if (transaction === undefined) throw new TransactionRequiredError(caller)
    const { own, handle } = transaction
    const run: RunStatement = own?.session.run ?? ((sql, parameters = []) => driver.run(handle, sql, parameters))
    try {
      return await transaction.watch(() => besideSavepoints(port, transaction, () => work(run)))
    } catch (error) {
      throw explainMissing(dialect, error, table)
    }
  }

  async function outside<R>(work: (run: RunStatement) => Promise<R>): Promise<R> {
    try {
      return await work((sql, parameters = []) => driver.run(driver.pool, sql, parameters))
    } catch (error) {
      throw explainMissing(dialect, error, table)
    }
  }

  return {
    async load(key, context) {
      checkProcessKey(key)
      const row = await inTransaction('sqlProcesses()', context, (run) => statements.load(run, key))
      return row === undefined ? undefined : storedOf(row)
    },

    async save(key, change, context) {
      checkProcessKey(key)
      const isSaved = await inTransaction('sqlProcesses()', context, (run) =>
        change.version === 1 ? statements.insert(run, key, change) : statements.update(run, key, change),
      )
      if (!isSaved) throw processConflict(key)
    },

    async list(query = {}) {
      const { process, phase, idleFor = -Infinity, limit, after } = checkProcessQuery(query)
      const from = after === undefined ? undefined : readCursor(after)
      const rows = await outside((run) => statements.list(run, { process, after: from, limit }))
      const last = rows.length < limit ? undefined : rows.at(-1)
      const processes = rows.flatMap((row) => {
        const record = recordOf(row)
        const matches = record !== undefined && (phase ?? record.phase) === record.phase && Number(row['idle']) >= idleFor
        return matches ? [record] : []
      })
      return { processes, next: last === undefined ? undefined : cursorOf(keyOf(last)) }
    },

    async get(key) {
      checkProcessKey(key)
      const row = await outside((run) => statements.get(run, key))
      return row === undefined ? undefined : recordOf(row)
    },

    async end(key, { keep }) {
      checkProcessKey(key)
      checkDuration('keep', keep, { min: 1 })
      return await outside((run) => statements.end(run, key, keep))
    },
  }
}

function storedOf(row: Row): StoredProcess {
  return {
    // One of the three that the statements compute.
    phase: String(row['phase']) as StoredProcess['phase'],
    version: Number(row['version']),
    state: String(row['state']),
    stateVersion: Number(row['state_version']),
    // As save() wrote them.
    timeouts: JSON.parse(String(row['timeouts'])) as StoredProcess['timeouts'],
  }
}

/** `undefined` for a forgotten instance. */
function recordOf(row: Row): ProcessRecord | undefined {
  const { phase, ...stored } = storedOf(row)
  if (phase === 'forgotten') return undefined
  const expiresAt = row['expires_at']
  return {
    ...keyOf(row),
    ...stored,
    phase,
    startedAt: Number(row['started_at']),
    changedAt: Number(row['changed_at']),
    expiresAt: expiresAt === null || expiresAt === undefined ? undefined : Number(expiresAt),
  }
}

function keyOf(row: Row): ProcessKey {
  return { process: String(row['process']), id: String(row['id']) }
}

function cursorOf({ process, id }: ProcessKey): string {
  return Buffer.from(JSON.stringify([process, id])).toString('base64url')
}

function readCursor(cursor: string): ProcessKey {
  try {
    const [process, id] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as readonly unknown[]
    if (typeof process === 'string' && typeof id === 'string') return { process, id }
  } catch {
    // Said below.
  }
  throw new InvalidOptionError('after', 'must be the `next` of an earlier page.')
}
