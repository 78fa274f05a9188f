import { InvalidOptionError } from '@ackord/core'
import { checkChoice, checkDuration } from '@ackord/core/internal'
import type { Isolation, TransactionSettings } from '../contract/dialect.ts'
import { errorNumberOf } from './errors.ts'

/** In seconds. MariaDB treats this and higher values as no limit; for MySQL it is three years. */
const noLimit = 100_000_000

interface Limit {
  readonly option: 'statementTimeout' | 'lockTimeout' | 'idleTimeout'
  readonly variable: string
  /** The server's value for this many milliseconds. */
  readonly value: (milliseconds: number) => number
}

const limits: readonly Limit[] = [
  { option: 'statementTimeout', variable: 'max_statement_time', value: (milliseconds) => milliseconds / 1000 },
  { option: 'lockTimeout', variable: 'innodb_lock_wait_timeout', value: (milliseconds) => seconds(milliseconds) || noLimit },
  { option: 'idleTimeout', variable: 'idle_transaction_timeout', value: seconds },
]

const isolations: readonly Isolation[] = ['read committed', 'repeatable read', 'serializable']

/**
 * The statements sent before START TRANSACTION. Isolation applies to the next transaction only; limits belong to the session, so their previous
 * values are kept in variables until `resetsOf` restores them at the end of the transaction.
 */
export function transactionSettings(settings: TransactionSettings): readonly string[] {
  const { isolation } = settings
  const statements: string[] = []
  if (isolation !== undefined) {
    checkChoice('isolation', isolation, isolations)
    statements.push(isolationSql(isolation))
  }
  for (const { option, variable, value } of limits) {
    const asked = settings[option]
    if (asked === undefined) continue
    const limit = value(checkDuration(option, asked))
    statements.push(`SET @ackord_${variable} = @@SESSION.${variable}, @@SESSION.${variable} = ${limit}`)
  }
  return statements
}

/** The isolation level in these settings. */
export function isolationOf(settings: readonly string[]): Isolation | undefined {
  return isolations.find((isolation) => settings.includes(isolationSql(isolation)))
}

export function isIsolation(setting: string): boolean {
  return isolationOf([setting]) !== undefined
}

/** The statements that restore the limits of the session: the next user of the connection did not ask for them. */
export function resetsOf(settings: readonly string[]): readonly string[] {
  return limits
    .filter(({ variable }) => settings.some((sql) => sql.startsWith(`SET @ackord_${variable} =`)))
    .map(({ variable }) => `SET @@SESSION.${variable} = @ackord_${variable}`)
}

/** Explains the error of a setting that this server does not support. */
export function explainSetting(error: unknown): unknown {
  // Unknown system variable.
  if (errorNumberOf(error) !== 1193 || !(error instanceof Error)) return error
  const limit = limits.find(({ variable }) => error.message.includes(variable))
  if (limit === undefined) return error
  return new InvalidOptionError(limit.option, `is not supported by this server: it has no ${limit.variable}, which MariaDB has.`, {
    cause: error,
  })
}

function isolationSql(isolation: Isolation): string {
  return `SET TRANSACTION ISOLATION LEVEL ${isolation.toUpperCase()}`
}

function seconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1000)
}
