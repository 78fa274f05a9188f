import { InvalidOptionError } from '@ackord/core'
import { checkChoice, checkDuration } from '@ackord/core/internal'
import type { Isolation, TransactionSettings } from '../contract/dialect.ts'
import { errorNumberOf } from './errors.ts'

/** In seconds. MariaDB takes it, and all above, for no limit; MySQL for three years. */
const noLimit = 100_000_000

interface Limit {
  readonly option: 'statementTimeout' | 'lockTimeout' | 'idleTimeout'
  readonly variable: string
  /** The server's value for so many milliseconds. */
  readonly value: (milliseconds: number) => number
}

const limits: readonly Limit[] = [
  { option: 'statementTimeout', variable: 'max_statement_time', value: (milliseconds) => milliseconds / 1000 },
  { option: 'lockTimeout', variable: 'innodb_lock_wait_timeout', value: (milliseconds) => seconds(milliseconds) || noLimit },
  { option: 'idleTimeout', variable: 'idle_transaction_timeout', value: seconds },
]

const isolations: readonly Isolation[] = ['read committed', 'repeatable read', 'serializable']

/**
 * The statements that come before START TRANSACTION. Isolation is for the next transaction only; limits belong to the session, so what they
 * were is kept in variables until `resetsOf` the transaction's end.
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

/** The isolation that one of the settings asks for. */
export function isolationOf(settings: readonly string[]): Isolation | undefined {
  return isolations.find((isolation) => settings.includes(isolationSql(isolation)))
}

export function isIsolation(setting: string): boolean {
  return isolationOf([setting]) !== undefined
}

/** The statements that give the session its limits back: whoever has the connection next did not ask for them. */
export function resetsOf(settings: readonly string[]): readonly string[] {
  return limits
    .filter(({ variable }) => settings.some((sql) => sql.startsWith(`SET @ackord_${variable} =`)))
    .map(({ variable }) => `SET @@SESSION.${variable} = @ackord_${variable}`)
}

/** The error of a setting; for one that this server does not have, one that says so. */
export function explainSetting(error: unknown): unknown {
  // Unknown system variable.
  if (errorNumberOf(error) !== 1193 || !(error instanceof Error)) return error
  const limit = limits.find(({ variable }) => error.message.includes(variable))
  if (limit === undefined) return error
  return new InvalidOptionError(limit.option, `is not possible on this server: it has no ${limit.variable}, as MariaDB has.`, {
    cause: error,
  })
}

function isolationSql(isolation: Isolation): string {
  return `SET TRANSACTION ISOLATION LEVEL ${isolation.toUpperCase()}`
}

function seconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1000)
}
