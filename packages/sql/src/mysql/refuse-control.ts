import { AckordError } from '@ackord/core'

/** Comments, blanks and parentheses before a statement. Of `/*!` the text behind it is carried out. */
const before = /^(?:\s|\(|\/\*(?!M?!)[\s\S]*?\*\/|\/\*M?!\d*|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$))*/

/** What begins or ends a transaction, by its name or on the side: DDL commits. What is made for the session alone does not. */
const control = new RegExp(
  `^(?:${[
    'begin(?!\\s+not\\s+atomic\\b)',
    'start\\s+transaction',
    'commit',
    'rollback(?!\\s+(?:work\\s+)?to\\b)',
    'xa',
    'set\\s+(?:(?:session|local)\\s+|@@(?:session\\.|local\\.)?)?autocommit',
    '(?:un)?lock\\s+tables?',
    'create(?!\\s+(?:or\\s+replace\\s+)?temporary\\b)',
    'drop(?!\\s+temporary\\b)',
    'alter',
    'truncate',
    'rename',
    'grant',
    'revoke',
    '(?:analyze|optimize|repair|check)\\s+(?:no_write_to_binlog\\s+|local\\s+)?tables?',
    'flush',
  ].join('|')})\\b`,
  'i',
)

/** Throws at a statement that would begin or end the transaction under our hands; savepoints are the handler's own business. */
export function refuseControl(sql: unknown): void {
  if (typeof sql !== 'string' || !control.test(sql.replace(before, ''))) return
  throw new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    'A statement would begin or end the transaction that the middleware owns, as DDL does on MySQL. Throw to roll it back; use SAVEPOINT for a part of it; run DDL outside.',
  )
}

const changes = /^(?:insert|replace|update|delete|savepoint|release|rollback)\b/i

/** Whether a statement only reads, and so leaves the transaction as it is. */
export function isRead(sql: unknown): boolean {
  return typeof sql === 'string' && /^(?:select|with|show|explain|describe|desc|values|table)\b/i.test(sql.replace(before, ''))
}

/**
 * Whether a statement is known to leave the transaction open. Not behind `CALL` and `EXECUTE`, nor in one of several; a function or a
 * trigger cannot end it. `undefined` is what an ORM makes of its models.
 */
export function keepsTransaction(sql: unknown): boolean {
  if (sql === undefined || isRead(sql)) return true
  return typeof sql === 'string' && changes.test(sql.replace(before, '')) && !/;\s*\S/.test(sql)
}
