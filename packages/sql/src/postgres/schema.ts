import { rootContext } from '@ackord/core'
import { type Database, portOf } from '../database.ts'
import type { RunStatement, Session } from '../driver.ts'
import { SchemaError } from '../errors.ts'
import type { TableOptions, Tables } from '../tables.ts'
import { metaSql, migrations, schemaVersion } from './migrations.ts'
import { quoteIdentifier } from './quote-identifier.ts'
import { sqlStateOf } from './sql-state.ts'

interface Version {
  readonly version: number
  readonly oldestReader: number
}

/** Makes the tables, or brings older ones up to date, in one transaction. Any number of processes may call it at once, and again. */
export async function createSchema<Handle>(database: Database<Handle>, options: TableOptions = {}): Promise<void> {
  const port = portOf(database)
  const tables = port.tables(options)
  await port.driver.transaction([], (session) => migrate(session, tables), rootContext().signal)
}

/** Throws a `SchemaError` unless the tables are there in a version that this code works with. */
export async function validateSchema<Handle>(database: Database<Handle>, options: TableOptions = {}): Promise<void> {
  const { driver, tables: tablesOf } = portOf(database)
  const tables = tablesOf(options)
  let found: Version | undefined
  try {
    found = await readVersion((sql, parameters = []) => driver.run(driver.pool, sql, parameters), tables)
  } catch (error) {
    const state = sqlStateOf(error)
    if (state !== '42P01' && state !== '3F000') throw error
    throw missing(tables, error)
  }
  if (found === undefined) throw missing(tables)
  checkReadable(found, tables)
  if (found.version < schemaVersion) {
    throw new SchemaError(
      'older',
      `The tables beside ${tables.meta} have version ${found.version}, and this code needs ${schemaVersion}. Run createSchema(database) before you deploy it.`,
    )
  }
}

/** The statements that createSchema() runs on an empty database, for those who bring their own migrations. */
export function schemaSql<Handle>(database: Database<Handle>, options: TableOptions = {}): string {
  const tables = portOf(database).tables(options)
  const last = migrations.at(-1)
  const row = `INSERT INTO ${tables.meta} (name, version, oldest_reader) VALUES ('schema', ${last?.version}, ${last?.oldestReader})`
  return `${[metaSql(tables), ...migrations.map(({ sql }) => sql(tables).trim().replace(/;$/, '')), row].join(';\n\n')};\n`
}

async function migrate(session: Session<unknown>, tables: Tables): Promise<void> {
  const { run } = session
  // CREATE … IF NOT EXISTS is not safe against itself: two at once collide in the catalogue.
  await run('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`ackord ${tables.meta}`])
  await createNamespace(run, tables.schema)
  await session.script(metaSql(tables))
  const found = await readVersion(run, tables)
  if (found !== undefined) checkReadable(found, tables)
  for (const { version, oldestReader, sql } of migrations) {
    if (found !== undefined && version <= found.version) continue
    await session.script(sql(tables))
    await run(
      `INSERT INTO ${tables.meta} (name, version, oldest_reader) VALUES ('schema', $1, $2)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = clock_timestamp()`,
      [version, oldestReader],
    )
  }
}

/** Looked for first: CREATE SCHEMA IF NOT EXISTS needs a privilege even where there is nothing to create. */
async function createNamespace(run: RunStatement, schema: string | undefined): Promise<void> {
  if (schema === undefined) return
  const { rows } = await run('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema])
  if (rows.length === 0) await run(`CREATE SCHEMA ${quoteIdentifier('schema', schema)}`)
}

async function readVersion(run: RunStatement, { meta }: Tables): Promise<Version | undefined> {
  const { rows } = await run(`SELECT version, oldest_reader FROM ${meta} WHERE name = 'schema'`)
  const [row] = rows
  return row === undefined ? undefined : { version: Number(row['version']), oldestReader: Number(row['oldest_reader']) }
}

function checkReadable({ version, oldestReader }: Version, { meta }: Tables): void {
  if (oldestReader <= schemaVersion) return
  throw new SchemaError(
    'newer',
    `The tables beside ${meta} have version ${version}, which needs code that knows version ${oldestReader}; this code knows ${schemaVersion}. Update @ackord/sql.`,
  )
}

function missing({ meta }: Tables, cause?: unknown): SchemaError {
  return new SchemaError('missing', `There is no schema version in ${meta}. Run createSchema(database) when you deploy.`, { cause })
}
