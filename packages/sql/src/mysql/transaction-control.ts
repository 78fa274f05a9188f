import { InvalidOptionError } from '@ackord/core'
import type { StatementResult } from '../contract/driver.ts'
import { type AdmitStatement, admitter, rollsBackTo, traitsReader } from '../contract/statement-traits.ts'

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
