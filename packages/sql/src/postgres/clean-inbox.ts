import { checkCount, checkDuration } from '@ackord/core/internal'
import { type Database, portOf } from '../database.ts'
import type { TableOptions } from '../tables.ts'
import { cleanInboxSql } from './inbox-statements.ts'

export interface CleanInboxOptions extends TableOptions {
  /** Milliseconds for which a message is remembered. It must be longer than the broker may take to deliver it again, replays included. Default: 7 days. */
  readonly window?: number | undefined
  /** How many at most. Default: 1000. */
  readonly limit?: number | undefined
}

/** Forgets messages that were received before the window, in one bounded batch. Resolves to how many it were; fewer than the limit means that it is done. */
export async function cleanInbox<Handle>(database: Database<Handle>, options: CleanInboxOptions = {}): Promise<number> {
  const { window = 7 * 24 * 60 * 60 * 1000, limit = 1000 } = options
  checkDuration('window', window)
  checkCount('limit', limit)
  const { driver, tables } = portOf(database)
  const { count } = await driver.run(driver.pool, cleanInboxSql(tables(options).inbox), [window, limit])
  return count
}
