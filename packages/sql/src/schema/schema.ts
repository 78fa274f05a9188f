import { rootContext } from '@ackord/core'
import type { TableOptions, Tables } from '../contract/database-options.ts'
import type { RunStatement, Session } from '../contract/driver.ts'
import type { SchemaStatements } from '../contract/store-dialect.ts'
import { readVersion, type TableVersion } from '../contract/table-version.ts'
import { SchemaError } from '../errors.ts'
import { type Database, portOf } from '../transaction/database.ts'

type SchemaSession = Pick<Session<unknown>, 'run' | 'script'>

/** Creates the tables, or migrates older ones, in one transaction where the database supports it. Idempotent, and safe to run concurrently. */
export async function createSchema<Handle>(database: Database<Handle>, options: TableOptions = {}): Promise<void> {
  const { driver, dialect, tables: tablesOf } = portOf(database)
  const tables = tablesOf(options)
  const work = (session: SchemaSession) => migrate(session, dialect.store.schema, tables)
  await (driver.connection?.(work) ?? driver.transaction([], work, rootContext().signal))
}

/** Throws a `SchemaError` unless the tables exist in a version that this code works with. */
export async function validateSchema<Handle>(database: Database<Handle>, options: TableOptions = {}): Promise<void> {
  const { driver, dialect, tables: tablesOf } = portOf(database)
  const tables = tablesOf(options)
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
}

/** The statements that createSchema() runs on an empty database, for use with your own migrations. */
export function printSchema<Handle>(database: Database<Handle>, options: TableOptions = {}): string {
  const { dialect, tables: tablesOf } = portOf(database)
  const { meta, migrations, setVersion } = dialect.store.schema
  const tables = tablesOf(options)
  const steps = migrations.flatMap(({ version, oldestReader, sql }) => [sql(tables), setVersion(tables, version, oldestReader)])
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
