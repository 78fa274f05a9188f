import type { InboxKey, InboxQuery } from '@ackord/outbox'
import type { RecordingSession } from '../contract/dialect.ts'
import type { RunStatement, Statement } from '../contract/driver.ts'
import type { Row } from '../records/row.ts'
import { textOf } from '../records/text-limits.ts'
import { errorNumberOf } from './errors.ts'
import { instant, joinParts, readRow, type SqlPart } from './sql-text.ts'

/**
 * Records a message: one row if it is new; an error that undoes only the statement if it exists. INSERT IGNORE would hide other errors too, and ON
 * DUPLICATE KEY UPDATE counts differently with each client. A trigger can cause a duplicate key error in another table, so the row is looked up. That
 * read takes locks, as the failed insert did, and sees rows committed after the transaction began.
 */
export function recorder(table: string): (key: InboxKey) => InsertStatement {
  const sql = `INSERT INTO ${table} (consumer, source, id, received_at) VALUES (?, ?, ?, UTC_TIMESTAMP(6))`
  const finding = `SELECT 1 FROM ${table} WHERE consumer = ? AND source = ? AND id = ? LOCK IN SHARE MODE`
  return ({ consumer, source, id }) => {
    const parameters = [consumer, source, id]
    return { sql, parameters, prepare: true, rows: 1, none: isDuplicate, confirm: { sql: finding, parameters, refused: isDenied } }
  }
}

/**
 * Inserts all keys at once; if some exist, the statement fails and is undone: the existing ones are then locked and read, and the rest is inserted.
 */
export async function recordAll({ run }: RecordingSession, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]> {
  try {
    return await insertAll(run, table, keys)
  } catch (error) {
    if (!isDuplicate(error)) throw error
  }
  const known = new Set((await lockAll(run, table, keys)).map(textOf))
  return await insertAll(
    run,
    table,
    keys.filter((key) => !known.has(textOf(key))),
  )
}

export async function forgetAll({ run }: RecordingSession, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]> {
  const known = await lockAll(run, table, keys)
  if (known.length === 0) return known
  const { sql, parameters } = forgetSql(table, known)
  await run(sql, parameters)
  return known
}

/** Returns the keys that exist. */
async function lockAll(run: RunStatement, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]> {
  const { sql, parameters } = keysSql(keys)
  const { rows } = await run(
    `SELECT i.consumer, i.source, i.id FROM ${table} AS i FORCE INDEX (PRIMARY) WHERE ${sql} FOR UPDATE`,
    parameters,
  )
  return rows.map(readRow).map(({ consumer, source, id }) => ({ consumer: `${consumer}`, source: `${source}`, id: `${id}` }))
}

async function insertAll(run: RunStatement, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]> {
  if (keys.length === 0) return keys
  const values = keys.map(() => '(?, ?, ?, UTC_TIMESTAMP(6))').join(', ')
  const parameters = keys.flatMap(({ consumer, source, id }) => [consumer, source, id])
  await run(`INSERT INTO ${table} (consumer, source, id, received_at) VALUES ${values}`, parameters)
  return keys
}

/**
 * A duplicate entry in a primary key, not in an index added by the user. MariaDB does not report the table, and the text around the key name is
 * localised.
 */
function isDuplicate(error: unknown): boolean {
  if (errorNumberOf(error) !== 1062 || !(error instanceof Error)) return false
  // The server's own text, if the driver has extended it.
  const text = 'sqlMessage' in error ? String(error.sqlMessage) : error.message
  return /'(?:[^']*\.)?PRIMARY'/.test(text)
}

/** The keys of messages received before the window. Locks them and skips locked ones. */
export function oldInboxSql(table: string, { window, limit }: { readonly window: number; readonly limit: number }): string {
  return `SELECT consumer, source, id FROM ${table} FORCE INDEX (received)
WHERE received_at < UTC_TIMESTAMP(6) - INTERVAL ${Math.round(window * 1000)} MICROSECOND
ORDER BY received_at LIMIT ${limit} FOR UPDATE SKIP LOCKED`
}

/** The entries of a message. The pairs are read with a loose index scan of the primary key. */
export function findInboxSql(table: string, id: string, { consumer, source }: InboxQuery): SqlPart {
  const all: SqlPart = { sql: 'true', parameters: [] }
  const ofConsumer = consumer === undefined ? all : { sql: 'i.consumer = ?', parameters: [consumer] }
  const ofSource = source === undefined ? all : { sql: 'i.source = ?', parameters: [source] }
  // A source alone does not select a range of the key.
  const pair = consumer === undefined ? all : joinParts([ofConsumer, ofSource], ' AND ')
  return {
    sql: `SELECT i.consumer, i.source, i.id, ${instant('i.received_at')} AS received_at
FROM (SELECT DISTINCT i.consumer, i.source FROM ${table} AS i FORCE INDEX (PRIMARY) WHERE ${pair.sql}) AS pairs
STRAIGHT_JOIN ${table} AS i FORCE INDEX (PRIMARY) ON i.consumer = pairs.consumer AND i.source = pairs.source AND i.id = ?
WHERE ${ofSource.sql} ORDER BY i.consumer, i.source`,
    parameters: [...pair.parameters, id, ...ofSource.parameters],
  }
}

/** Deletes the messages of these rows. */
export function forgetSql(table: string, rows: readonly (Row | InboxKey)[]): SqlPart {
  const { sql, parameters } = keysSql(rows)
  return { sql: `DELETE i FROM ${table} AS i FORCE INDEX (PRIMARY) WHERE ${sql}`, parameters }
}

function keysSql(keys: readonly { readonly [Column in keyof InboxKey]?: unknown }[]): SqlPart {
  return {
    sql: keys.map(() => '(i.consumer = ? AND i.source = ? AND i.id = ?)').join(' OR '),
    parameters: keys.flatMap(({ consumer, source, id }) => [consumer, source, id]),
  }
}

/** The user lacks the SELECT privilege on the table or a column. */
function isDenied(error: unknown): boolean {
  const number = errorNumberOf(error)
  return number === 1142 || number === 1143
}

/** Inserts rows atomically. */
export interface InsertStatement extends Statement {
  /** The number of rows. In a compound statement the server also counts rows that triggers change and select, so its number is useless. */
  readonly rows: number
}

/** The number of rows that a statement changes unless it fails; `undefined` where only the server knows. */
export function rowsOf(statement: Statement): number | undefined {
  return 'rows' in statement && typeof statement.rows === 'number' ? statement.rows : undefined
}
