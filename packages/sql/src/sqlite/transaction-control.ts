import { InvalidOptionError } from '@ackord/core'
import { checkDuration } from '@ackord/core/internal'
import type { TransactionSettings } from '../contract/dialect.ts'
import { type AdmitStatement, admitter, rollsBackTo, traitsReader } from '../contract/statement-traits.ts'

const traitsOf = traitsReader({
  syntax: {
    lineEnds: /\n/g,
    brackets: true,
    // A trigger contains statements of its own.
    body: { of: ([first, ...more]) => first === 'CREATE' && more.slice(0, 2).includes('TRIGGER'), until: 'END statement' },
  },
  isControl: ([first = '', ...more]) =>
    first === 'ROLLBACK' ? !rollsBackTo(more) : first === 'BEGIN' || first === 'COMMIT' || first === 'END',
})

/** Throws for a statement that would begin or end the transaction behind our back; handlers may use savepoints. */
export const refuseControl: AdmitStatement = admitter(
  traitsOf,
  'A statement would begin or end the transaction that the middleware owns. Throw to roll it back; use SAVEPOINT for a part of it.',
)

/** Whether a text creates, releases or rolls back to a savepoint. */
export function isSavepoint(sql: string): boolean {
  return traitsOf(sql).isSavepoint
}

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
