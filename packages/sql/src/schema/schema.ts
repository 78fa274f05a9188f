import { InvalidOptionError, idle, rootContext, systemRuntime } from '@ackord/core'
import { rejectUnknownOptions } from '@ackord/core/internal'
import type { Dialect } from '../contract/dialect.ts'
import type { RunStatement, Session } from '../contract/driver.ts'
import type { InboxPartitionStatements, SchemaStatements } from '../contract/store-dialect.ts'
import { readVersion, type TableVersion } from '../contract/table-version.ts'
import type { TableOptions, Tables } from '../contract/tables.ts'
import { SchemaError } from '../errors.ts'
import { type Database, portOf } from '../transaction/database.ts'

export interface SchemaOptions extends TableOptions {
  readonly inbox?: InboxSchemaOptions | undefined
}

export interface InboxSchemaOptions {
  /**
   * Whether the inbox consists of four partitions, which the cleanup empties in turn instead of deleting rows: it leaves no dead rows behind. Messages are remembered for
   * the window and up to half a window more. Each message takes a look at two older partitions. An existing inbox is changed; its rows are kept. PostgreSQL only. Default:
   * as it is; at first, no partitions.
   */
  readonly partitions?: boolean | undefined
}

/** How often it is tried to lock the inbox, for how long each time, and the pause in between, in milliseconds. Meanwhile handlers wait for at most one try. */
const lockTries = 20
const lockTimeout = 500
const lockPause = 1000

type SchemaSession = Pick<Session<unknown>, 'run' | 'script'>

/** Creates the tables, or migrates older ones, in one transaction where the database supports it. Idempotent, and safe to run concurrently. */
export async function createSchema<Handle>(database: Database<Handle>, options: SchemaOptions = {}): Promise<void> {
  const { driver, dialect, tables: tablesOf } = portOf(database)
  const tables = tablesOf(options)
  const partitions = wantedPartitions(dialect, options)
  const work = (session: SchemaSession) => migrate(session, dialect.store.schema, tables)
  await (driver.connection?.(work) ?? driver.transaction([], work, rootContext().signal))
  if (partitions !== undefined) await changePartitions(database, tables, partitions)
}

/** Throws a `SchemaError` unless the tables exist in a version that this code works with. */
export async function validateSchema<Handle>(database: Database<Handle>, options: SchemaOptions = {}): Promise<void> {
  const { driver, dialect, tables: tablesOf } = portOf(database)
  const tables = tablesOf(options)
  const partitions = wantedPartitions(dialect, options)
  const known = versionOf(dialect.store.schema)
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
  await dialect.store.schema.check?.(run)
  let found: TableVersion | undefined
  try {
    found = await readVersion(run, tables)
  } catch (error) {
    throw dialect.isSchemaMissing(error) ? missing(tables, error) : error
  }
  if (found === undefined) throw missing(tables)
  checkReadable(found, known, tables)
  if (found.version < known) {
    throw new SchemaError(
      'older',
      `The tables beside ${tables.meta} have version ${found.version}, and this code needs ${known}. Run createSchema(database) before you deploy it.`,
    )
  }
  if (partitions !== undefined && (await partitions.statements.exist(run, tables.inbox)) !== partitions.wanted) {
    const found = partitions.wanted ? 'has no partitions' : 'has partitions'
    throw new SchemaError('older', `The table ${tables.inbox} ${found}. Run createSchema(database) with the same options.`)
  }
}

/** The statements that createSchema() runs on an empty database, for use with your own migrations. */
export function printSchema<Handle>(database: Database<Handle>, options: SchemaOptions = {}): string {
  const { dialect, tables: tablesOf } = portOf(database)
  const { meta, migrations, setVersion } = dialect.store.schema
  const tables = tablesOf(options)
  const steps = migrations.flatMap(({ version, oldestReader, sql }) => [sql(tables), setVersion(tables, version, oldestReader)])
  const partitions = wantedPartitions(dialect, options)
  if (partitions?.wanted === true) steps.push(partitions.statements.create(tables.inbox))
  return `${[meta(tables), ...steps].map((step) => step.trim().replace(/;$/, '')).join(';\n\n')};\n`
}

async function migrate(session: SchemaSession, statements: SchemaStatements, tables: Tables): Promise<void> {
  const { run } = session
  await statements.check?.(run)
  for (const sql of statements.lock(tables)) await run(sql)
  try {
    await createNamespace(run, statements, tables)
    await session.script(statements.meta(tables))
    const found = await readVersion(run, tables)
    if (found !== undefined) checkReadable(found, versionOf(statements), tables)
    for (const { version, oldestReader, sql } of statements.migrations) {
      if (found !== undefined && version <= found.version) continue
      try {
        await session.script(sql(tables))
      } catch (error) {
        if (statements.alreadyExists?.(error) !== true) throw error
      }
      await run(statements.setVersion(tables, version, oldestReader))
    }
  } finally {
    // If this fails, the connection is lost, and the lock with it.
    for (const sql of statements.unlock(tables)) await run(sql).catch(() => {})
  }
}

interface WantedPartitions {
  readonly statements: InboxPartitionStatements
  readonly wanted: boolean
}

/** `undefined` if the inbox is to stay as it is. */
function wantedPartitions({ store }: Dialect, { inbox = {} }: SchemaOptions): WantedPartitions | undefined {
  const { partitions: wanted, ...unknown } = inbox
  rejectUnknownOptions('inbox', unknown)
  if (wanted === undefined) return undefined
  if (typeof wanted !== 'boolean') throw new InvalidOptionError('inbox.partitions', 'must be true or false.')
  const statements = store.schema.inboxPartitions
  if (statements !== undefined) return { statements, wanted }
  if (wanted) throw new InvalidOptionError('inbox.partitions', 'is supported on PostgreSQL only. Omit it, or use PostgreSQL.')
  return undefined
}

/** Locks the inbox in several short tries: while this waits for the transactions that use it, all others wait behind it. */
async function changePartitions<Handle>(
  database: Database<Handle>,
  tables: Tables,
  { statements, wanted }: WantedPartitions,
): Promise<void> {
  const { driver, dialect } = portOf(database)

  async function change({ run, script }: SchemaSession): Promise<void> {
    for (const sql of dialect.store.schema.lock(tables)) await run(sql)
    if ((await statements.exist(run, tables.inbox)) === wanted) return
    await script(wanted ? statements.create(tables.inbox) : statements.remove(tables.inbox))
  }

  for (let tries = 1; ; tries += 1) {
    try {
      return await driver.transaction(dialect.settings({ isolation: 'read committed', lockTimeout }), change, rootContext().signal)
    } catch (error) {
      if (dialect.isLockTimeout?.(error) !== true) throw error
      if (tries === lockTries) {
        const text = `The partitions of ${tables.inbox} could not be changed, because transactions have used it all the time. Run createSchema(database) again.`
        throw new SchemaError('older', text, { cause: error })
      }
      await idle(systemRuntime, lockPause, rootContext().signal)
    }
  }
}

/** Checked first: creating a namespace requires a privilege even if it already exists. */
async function createNamespace(run: RunStatement, statements: SchemaStatements, tables: Tables): Promise<void> {
  const namespace = statements.namespace(tables)
  if (namespace === undefined) return
  const { rows } = await run(namespace.exists)
  if (rows.length === 0) await run(namespace.create)
}

/** The version of the tables that this code works with. */
function versionOf({ migrations }: SchemaStatements): number {
  return migrations.at(-1)?.version ?? 0
}

function checkReadable({ version, oldestReader }: TableVersion, known: number, { meta }: Tables): void {
  if (oldestReader <= known) return
  throw new SchemaError(
    'newer',
    `The tables beside ${meta} have version ${version}, which needs code that knows version ${oldestReader}; this code knows ${known}. Update @ackord/sql.`,
  )
}

function missing({ meta }: Tables, cause?: unknown): SchemaError {
  return new SchemaError('missing', `There is no schema version in ${meta}. Run createSchema(database) when you deploy.`, { cause })
}
