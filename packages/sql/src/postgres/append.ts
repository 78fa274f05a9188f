import type { AppendTarget, LeasedAppender } from '../contract/dialect.ts'
import type { Statement } from '../contract/driver.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import { instant, quoteLiteral } from './sql-text.ts'

/** The protocol numbers parameters with 16 bits; a row has at most nine. */
const maxRows = 5000

/** The numbers of rows whose statement is prepared: few, because each connection keeps a plan for each. */
const preparedRows = [32, 16, 8, 4, 3, 2, 1] as const

/**
 * Inserts all rows in order: the identity is assigned row by row. With pipelining it uses several prepared statements, because parsing a text with
 * hundreds of parameters is what costs the server most; otherwise one, unless there are more than 5000 rows. In log mode, delayed rows have statements of their own.
 *
 * Writers of an ordered key take turns: the locks of all keys are taken before the first identity, in the order of their numbers, so that one call
 * cannot cause a deadlock between two transactions.
 */
export function appender(
  target: AppendTarget,
): (rows: readonly OutboxRow[], session: { readonly supportsPipelining: boolean }) => readonly Statement[] {
  const { outbox, log } = target
  const toTable = inserter(outbox, tableInsert(outbox))
  if (log === undefined) return toTable
  const toLog = inserter(outbox, logInsert(log))

  return function append(rows, session) {
    if (rows.every(({ delay }) => delay === 0)) return toLog(rows, session)
    const ordered = rows.filter((row) => row.ordered)
    // The locks come first, as always; each part would take its own.
    const statements: Statement[] = ordered.length > 0 ? [lockStatement(outbox, ordered)] : []
    for (const part of splitByKind(rows)) {
      const unlocked = part.map((row) => ({ ...row, ordered: false }))
      statements.push(...(unlocked[0]?.delay === 0 ? toLog : toTable)(unlocked, session))
    }
    return statements
  }
}

/** Splits rows where an immediate one follows a delayed one, or the other way round: the order of all of them is kept. */
function splitByKind(rows: readonly OutboxRow[]): readonly OutboxRow[][] {
  const parts: OutboxRow[][] = []
  for (const row of rows) {
    const last = parts.at(-1)
    if (last !== undefined && (last[0]?.delay === 0) === (row.delay === 0)) last.push(row)
    else parts.push([row])
  }
  return parts
}

/** The columns and values of an insert. */
interface Insert {
  readonly text: (rows: number) => string
  /** The same, with the rows as a query that waits for the locks. */
  readonly lockingText: (rows: number, locks: string) => string
  /** The number of parameters of a row. */
  readonly width: number
  readonly addParameters: (row: OutboxRow, parameters: unknown[]) => void
}

function inserter(
  table: string,
  insert: Insert,
): (rows: readonly OutboxRow[], session: { readonly supportsPipelining: boolean }) => readonly Statement[] {
  const lockingText = (rows: number) => insert.lockingText(rows, lockedSql(table, insert, rows))
  const texts = new Map<number, string>(preparedRows.map((rows) => [rows, insert.text(rows)]))
  const lockingTexts = new Map<number, string>(preparedRows.map((rows) => [rows, lockingText(rows)]))

  function statementOf(rows: readonly OutboxRow[], { locks }: { readonly locks: boolean }): Statement {
    const parameters: unknown[] = []
    for (const row of rows) insert.addParameters(row, parameters)
    const prepared = (locks ? lockingTexts : texts).get(rows.length)
    if (prepared !== undefined) return { sql: prepared, parameters, prepare: true }
    return { sql: locks ? lockingText(rows.length) : insert.text(rows.length), parameters }
  }

  return function append(rows, { supportsPipelining }) {
    const ordered = rows.filter((row) => row.ordered)
    const locks = ordered.length > 0
    if (texts.has(rows.length)) return [statementOf(rows, { locks })]
    if (locks && !supportsPipelining && rows.length <= maxRows) return [statementOf(rows, { locks })]
    const statements: Statement[] = locks ? [lockStatement(table, ordered)] : []
    for (let start = 0; start < rows.length; ) {
      const left = rows.length - start
      const count = supportsPipelining ? (preparedRows.find((size) => size <= left) ?? left) : Math.min(left, maxRows)
      statements.push(statementOf(rows.slice(start, start + count), { locks: false }))
      start += count
    }
    return statements
  }
}

/** Destination, id, type, content type, ordering key, partition, data, attributes. */
const columnTypes = ['text', 'text', 'text', 'text', 'text', 'smallint', 'bytea', 'text']

const columns = 'destination, id, type, content_type, ordering_key, partition, data, attributes'

function tableInsert(table: string): Insert {
  const into = `INSERT INTO ${table} (state, ${columns}, available_at)`
  const values = (rows: number) =>
    valuesSql(rows, [...columnTypes, 'float8'], (given) => {
      const delay = given.at(-1)
      const fields = given.slice(0, -1).join(', ')
      return `(CASE WHEN ${delay} > 0 THEN 'waiting' ELSE 'ready' END, ${fields}, clock_timestamp() + ${delay} * interval '1 millisecond')`
    })
  return {
    text: (rows) => `${into}\nVALUES ${values(rows)}`,
    lockingText: (rows, locks) =>
      `${locks}\n${into}\nSELECT row.* FROM (VALUES ${values(rows)}) AS row CROSS JOIN (SELECT count(*) FROM locked) AS locks`,
    width: columnTypes.length + 1,
    addParameters(row, parameters) {
      addFields(row, parameters)
      parameters.push(row.delay)
    },
  }
}

/** The leaf that is written now is read once per statement. */
function logInsert({ table, meta }: { readonly table: string; readonly meta: string }): Insert {
  const into = `INSERT INTO ${table} (leaf, ${columns})`
  const leaf = `(SELECT version::smallint AS leaf FROM ${meta} WHERE name = 'log') AS written`
  const values = (rows: number) => valuesSql(rows, columnTypes, (given) => `(${given.join(', ')})`)
  return {
    text: (rows) => `${into}\nSELECT written.leaf, row.* FROM (VALUES ${values(rows)}) AS row CROSS JOIN ${leaf}`,
    lockingText: (rows, locks) =>
      `${locks}\n${into}\nSELECT written.leaf, row.* FROM (VALUES ${values(rows)}) AS row CROSS JOIN ${leaf} CROSS JOIN (SELECT count(*) FROM locked) AS locks`,
    width: columnTypes.length,
    addParameters: addFields,
  }
}

function addFields(row: OutboxRow, parameters: unknown[]): void {
  const { destination, id, type, contentType, orderingKey, partition, data, attributes } = row
  parameters.push(destination, id, type, contentType, orderingKey, partition, data, attributes)
}

/** Takes the locks before an identity: identities are assigned row by row to the result of the join, and the join waits for the locks. */
function lockedSql(table: string, { width }: Insert, rows: number): string {
  const keys = Array.from({ length: rows }, (_, row) => `($${row * width + 1}::text, $${row * width + 5}::text)`)
  return `WITH locked AS MATERIALIZED (${locksSql(table, `VALUES ${keys.join(', ')}`)})`
}

/** Locks the keys of rows that are inserted by several statements. */
function lockStatement(table: string, rows: readonly OutboxRow[]): Statement {
  const keys = [...new Set(rows.map(({ destination, orderingKey }) => JSON.stringify([destination, orderingKey])))]
  return {
    sql: locksSql(table, `SELECT pair ->> 0, pair ->> 1 FROM json_array_elements($1::json) AS pair`),
    parameters: [`[${keys.join(',')}]`],
  }
}

function locksSql(table: string, keys: string): string {
  return `SELECT pg_advisory_xact_lock(number) FROM (
  SELECT DISTINCT ${keyLockSql(table, 'destination', 'key')} AS number FROM (${keys}) AS given(destination, key) WHERE key IS NOT NULL ORDER BY number
) AS numbers`
}

function valuesSql(rows: number, types: readonly string[], rowSql: (given: readonly string[]) => string): string {
  let count = 0
  const next = (type: string) => {
    count += 1
    return `$${count}::${type}`
  }
  return Array.from({ length: rows }, () => rowSql(types.map(next))).join(', ')
}

/** One prepared statement per row: there are few, and they are pipelined with others where that is cheaper. */
export function leasedAppender(table: string): LeasedAppender {
  const sql = `INSERT INTO ${table} (state, destination, id, type, content_type, ordering_key, partition, data, attributes, available_at,
  attempts, lease_token, lease_until)
VALUES ('ready', $1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp(), 1, $9, clock_timestamp() + $10::float8 * interval '1 millisecond')
RETURNING seq::text AS seq, ${instant('created_at')} AS created_at`

  return function appendLeased(rows, { token, duration, onStored }) {
    return rows.map((row): Statement => {
      const { destination, id, type, contentType, orderingKey, partition, data, attributes } = row
      const parameters = [destination, id, type, contentType, orderingKey, partition, data, attributes, token, duration]
      return { sql, parameters, prepare: true, onRow: ([seq, createdAt]) => onStored(String(seq), Number(createdAt)) }
    })
  }
}

/**
 * The number of the advisory lock that writers of a key hold until they commit. `destination` and `key` are expressions. It is derived from a text
 * that nothing else uses and from the table's oid, which does not depend on the name by which the table is found.
 */
export function keyLockSql(table: string, destination: string, key: string): string {
  return `hashtextextended('ackord ' || ${destination} || chr(10) || ${key}, ${quoteLiteral(table)}::regclass::oid::bigint)`
}
