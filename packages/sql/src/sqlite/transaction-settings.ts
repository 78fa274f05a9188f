import { InvalidOptionError } from '@ackord/core'
import { checkDuration } from '@ackord/core/internal'
import type { TransactionSettings } from '../contract/dialect.ts'

/** Rejects settings that SQLite does not support. The only remaining one has a statement that the driver reads instead of running it. */
export function transactionSettings({ isolation, statementTimeout, lockTimeout, idleTimeout }: TransactionSettings): readonly string[] {
  if (isolation !== undefined && isolation !== 'serializable') {
    throw new InvalidOptionError(
      'isolation',
      `cannot be '${isolation}': SQLite has one writer, and its transactions are always serializable.`,
    )
  }
  for (const [option, value] of Object.entries({ statementTimeout, idleTimeout })) {
    if (value === undefined || checkDuration(option, value) === 0) continue
    throw new InvalidOptionError(option, 'is nothing that SQLite can do. Use the processTimeout of the router.')
  }
  return lockTimeout === undefined ? [] : [`PRAGMA busy_timeout = ${Math.ceil(checkDuration('lockTimeout', lockTimeout))}`]
}

export function lockTimeoutOf(settings: readonly string[]): number | undefined {
  const [setting] = settings
  return setting === undefined ? undefined : Number(/\d+$/.exec(setting)?.[0])
}
