import { InvalidOptionError, rootContext } from '@ackord/core'
import { checkChoice, checkDuration } from '@ackord/core/internal'
import type { Isolation, TransactionSettings } from '../contract/dialect.ts'
import type { Driver, RunStatement, StatementResult } from '../contract/driver.ts'
import { type AdmitStatement, admitter, rollsBackTo, traitsReader } from '../contract/statement-traits.ts'
import { errorNumberOf, isConflict } from './errors.ts'

/** DDL and other statements that commit implicitly, by their first word. */
const commits = new Set(['COMMIT', 'XA', 'ALTER', 'TRUNCATE', 'RENAME', 'GRANT', 'REVOKE', 'FLUSH'])
const maintenance = new Set(['ANALYZE', 'OPTIMIZE', 'REPAIR', 'CHECK'])
const tables = /^TABLES?$/
const autocommit = /^(?:@@(?:SESSION\.|LOCAL\.)?)?AUTOCOMMIT$/

/** Whether a statement begins or ends a transaction, explicitly or implicitly: DDL commits. Statements on temporary objects do not. */
function isControl([first = '', ...more]: readonly string[]): boolean {
  const [second = '', third = ''] = more
  if (first === 'BEGIN') return !(second === 'NOT' && third === 'ATOMIC')
  if (first === 'START') return second === 'TRANSACTION'
  if (first === 'ROLLBACK') return !rollsBackTo(more)
  if (first === 'SET') return autocommit.test(second === 'SESSION' || second === 'LOCAL' ? third : second)
  if (first === 'LOCK' || first === 'UNLOCK') return tables.test(second)
  if (first === 'CREATE') return !isTemporary(second === 'OR' && third === 'REPLACE' ? more.slice(2) : more)
  if (first === 'DROP') return !isTemporary(more)
  if (maintenance.has(first)) return tables.test(second === 'NO_WRITE_TO_BINLOG' || second === 'LOCAL' ? third : second)
  return commits.has(first)
}

function isTemporary([first]: readonly string[]): boolean {
  return first === 'TEMPORARY'
}

const reads = new Set(['SELECT', 'WITH', 'SHOW', 'EXPLAIN', 'DESCRIBE', 'DESC', 'VALUES', 'TABLE'])
const changes = new Set(['INSERT', 'REPLACE', 'UPDATE', 'DELETE', 'SAVEPOINT', 'RELEASE', 'DO'])
/** Statements that keep the transaction open in some forms: temporary tables, `ROLLBACK TO`. */
const mayKeep = new Set(['CREATE', 'DROP', 'ROLLBACK'])

const traitsOf = traitsReader({
  syntax: {
    dashNeedsBlank: true,
    hashComments: true,
    // The server also ends a comment at a NUL character.
    lineEnds: /[\n\0]/g,
    executableComments: true,
    backslash: 'all',
  },
  isControl,
  keepsTransaction: staysOpen,
  isRead: readsOnly,
})

function staysOpen(words: readonly string[]): boolean {
  const [first = '', second = ''] = words
  if (first === 'SET') return /^@[^@]/.test(second)
  return readsOnly(words) || changes.has(first) || (mayKeep.has(first) && !isControl(words))
}

function readsOnly([first = '']: readonly string[]): boolean {
  return reads.has(first)
}

/** Throws for a statement that would begin or end the transaction behind our back; handlers may use savepoints. */
export const refuseControl: AdmitStatement = admitter(
  traitsOf,
  'A statement would begin or end the transaction that the middleware owns, as DDL does on MySQL. Throw to roll it back; use SAVEPOINT for a part of it; run DDL outside.',
)

/** Whether a text only reads, and so leaves the transaction unchanged. */
export function isRead(sql: unknown): boolean {
  return typeof sql === 'string' && traitsOf(sql).isRead
}

/**
 * Whether a text is known to leave the transaction open. Not with `CALL` and `EXECUTE`; a function or a trigger cannot end it. `undefined` stands for
 * a query that an ORM generates from its models.
 */
export function keepsTransaction(sql: unknown): boolean {
  return sql === undefined || (typeof sql === 'string' && traitsOf(sql).keepsTransaction)
}

/** Queries a connection whose answers have no status. */
export async function checkAutocommit(send: (sql: string) => Promise<StatementResult>, adapter: string): Promise<void> {
  const { rows } = await send('SELECT @@SESSION.autocommit AS autocommit')
  if (Number(rows[0]?.['autocommit']) !== 1) throw withoutAutocommit(adapter)
}

/** Our statements outside of transactions would stay uncommitted and keep their locks. */
export function withoutAutocommit(adapter: string): InvalidOptionError {
  return new InvalidOptionError(
    adapter,
    'was given a pool whose connections have autocommit off. Leave it on: transactions are begun explicitly.',
  )
}

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

/** The default isolation would also lock gaps between rows, and writers would wait for claims. */
const storeSettings = transactionSettings({ isolation: 'read committed' })

const retries = 3

/** A short transaction of the store, without the handler's settings. Retried after a conflict. */
export async function storeTransaction<R>(driver: Driver<unknown>, work: (run: RunStatement) => Promise<R>): Promise<R> {
  return await retryConflicts(() => driver.transaction(storeSettings, ({ run }) => work(run), rootContext().signal))
}

/** Retries work that lost a conflict. */
export async function retryConflicts<R>(work: () => Promise<R>): Promise<R> {
  for (let retry = 1; ; retry += 1) {
    try {
      return await work()
    } catch (error) {
      if (retry > retries || !isConflict(error)) throw error
    }
  }
}
