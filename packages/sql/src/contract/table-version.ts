import type { Runtime } from '@ackord/core'
import type { Dialect } from './dialect.ts'
import type { Driver, RunStatement } from './driver.ts'
import type { Tables } from './tables.ts'

export interface TableVersion {
  readonly version: number
  /** The oldest version of this code that works with the tables. */
  readonly oldestReader: number
}

/** `undefined` if there is no version. */
export async function readVersion(run: RunStatement, { meta }: Tables): Promise<TableVersion | undefined> {
  const { rows } = await run(`SELECT version, oldest_reader FROM ${meta} WHERE name = 'schema'`)
  const [row] = rows
  return row === undefined ? undefined : { version: Number(row['version']), oldestReader: Number(row['oldest_reader']) }
}

/** The same, on any connection. `undefined` also if the tables do not exist: the statement that needs them says so. */
export async function findVersion<Handle>(
  { driver, dialect }: { readonly driver: Driver<Handle>; readonly dialect: Dialect },
  tables: Tables,
): Promise<TableVersion | undefined> {
  try {
    return await readVersion((sql, parameters = []) => driver.run(driver.pool, sql, parameters), tables)
  } catch (error) {
    if (dialect.isSchemaMissing(error)) return undefined
    throw error
  }
}

/** The version that added the cause and the history of failures, and the notes. */
const versionWithFailures = 4
/** The version that added the idempotency keys. */
export const versionWithIdempotency = 5
/** Milliseconds before the version of older tables is read again. */
const readAgainAfter = 60_000

/**
 * Whether the tables have the columns and the table that version 4 added. They may lack them: in a rolling deployment, relays of this version also work on tables of
 * version 3. The answer is remembered, and read again only while the tables are older.
 */
export function failuresCheck(read: () => Promise<TableVersion | undefined>, runtime: Runtime): () => Promise<boolean> {
  let known = false
  let readAgainAt = -Infinity
  let reading: Promise<boolean> | undefined

  async function readAgain(): Promise<boolean> {
    try {
      const found = await read()
      known = found !== undefined && found.version >= versionWithFailures
      readAgainAt = runtime.monotonic() + readAgainAfter
      return known
    } finally {
      reading = undefined
    }
  }

  return async function keepsFailures() {
    if (known || runtime.monotonic() < readAgainAt) return known
    reading ??= readAgain()
    return await reading
  }
}
