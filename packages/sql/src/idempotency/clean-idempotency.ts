import { checkCount, rejectUnknownOptions } from '@ackord/core/internal'
import { explaining, explainMissing } from '../contract/dialect.ts'
import type { Driver } from '../contract/driver.ts'
import { findVersion, versionWithIdempotency } from '../contract/table-version.ts'
import type { TableOptions } from '../contract/tables.ts'
import { type Database, portOf } from '../transaction/database.ts'

export interface CleanIdempotencyOptions extends TableOptions {
  /** The maximum number of rows. Default: 1000. */
  readonly limit?: number | undefined
}

/**
 * Deletes answers whose retention has ended, and claims of processes that died: a day after the end of their lease. In one bounded batch. Resolves to the number of
 * deleted rows; fewer than the limit means that none are left. On tables of an older version, which have no such rows, it is 0.
 */
export async function cleanIdempotency<Handle>(database: Database<Handle>, options: CleanIdempotencyOptions = {}): Promise<number> {
  const { limit = 1000, schema, names, ...unknown } = options
  rejectUnknownOptions('cleanIdempotency()', unknown)
  checkCount('limit', limit)
  const port = portOf(database)
  const { driver, dialect } = port
  const tables = port.tables({ schema, names })
  const found = await findVersion(port, tables)
  if (found !== undefined && found.version < versionWithIdempotency) return 0
  const table = tables.idempotency
  const statements = dialect.store.idempotency(driver as Driver<unknown>, table)
  return await explaining(statements, (error) => explainMissing(dialect, error, table)).deleteExpired(limit)
}
