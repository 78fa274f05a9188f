import { checkCount, rejectUnknownOptions } from '@ackord/core/internal'
import { explainMissing } from '../contract/dialect.ts'
import type { Driver } from '../contract/driver.ts'
import { findVersion } from '../contract/table-version.ts'
import type { TableOptions } from '../contract/tables.ts'
import { type Database, portOf } from '../transaction/database.ts'

export interface CleanProcessesOptions extends TableOptions {
  /** The maximum number of rows. Default: 1000. */
  readonly limit?: number | undefined
}

/**
 * Deletes the instances of processes that have finished and were remembered for as long as their definition says (`keep`). In one bounded batch. Resolves to the number of
 * deleted rows; fewer than the limit means that none are left. On tables of an older version, which have no such rows, it is 0.
 */
export async function cleanProcesses<Handle>(database: Database<Handle>, options: CleanProcessesOptions = {}): Promise<number> {
  const { limit = 1000, schema, names, ...unknown } = options
  rejectUnknownOptions('cleanProcesses()', unknown)
  checkCount('limit', limit)
  const port = portOf(database)
  const { driver, dialect } = port
  const tables = port.tables({ schema, names })
  const found = await findVersion(port, tables)
  if (found !== undefined && found.version < dialect.store.versionWithProcesses) return 0
  try {
    // The statement uses the handle of the driver, whatever its type.
    return await dialect.store.cleanProcesses(driver as Driver<unknown>, tables.process, limit)
  } catch (error) {
    throw explainMissing(dialect, error, tables.process)
  }
}
