import { checkCount, checkDuration, rejectUnknownOptions } from '@ackord/core/internal'
import type { Driver } from '../contract/driver.ts'
import type { TableOptions } from '../contract/tables.ts'
import { type Database, portOf } from '../transaction/database.ts'

export interface CleanInboxOptions extends TableOptions {
  /**
   * Milliseconds for which a message is remembered. It must be longer than the broker may take to redeliver the message, replays included. Default: 7
   * days.
   */
  readonly window?: number | undefined
  /** The maximum number of rows; partitions are emptied as a whole. Default: 1000. */
  readonly limit?: number | undefined
}

/**
 * Deletes messages that were received before the window, in one bounded batch. Resolves to the number of deleted rows; fewer than the limit means
 * that none are left. An inbox in partitions is cleaned by emptying one of them, once all of its messages were received before the window: it remembers messages for up
 * to half a window more, and the number is that of the server's statistics.
 */
export async function cleanInbox<Handle>(database: Database<Handle>, options: CleanInboxOptions = {}): Promise<number> {
  const { window = 7 * 24 * 60 * 60 * 1000, limit = 1000, schema, names, ...unknown } = options
  rejectUnknownOptions('cleanInbox()', unknown)
  checkDuration('window', window)
  checkCount('limit', limit)
  const { driver, dialect, tables } = portOf(database)
  return await dialect.store.cleanInbox(driver as Driver<unknown>, tables({ schema, names }).inbox, { window, limit })
}
