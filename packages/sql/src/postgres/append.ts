import type { LeasedAppender } from '../contract/dialect.ts'
import type { Statement } from '../contract/driver.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import { instant, quoteLiteral } from './sql-text.ts'

/** The protocol numbers parameters with 16 bits; a row has nine of them at most. */
const mostRows = 5000

/** Numbers of rows whose statement is prepared: few, because each connection keeps a plan for each. */
const preparedRows = [32, 16, 8, 4, 3, 2, 1] as const

/**
 * Inserts all rows, in their order: the identity is taken row by row. Where statements are sent together it is several that are prepared,
 * because reading a text with hundreds of parameters is what costs the server most; elsewhere one, unless there are more than 5000.
 *
 * Where a key is ordered, its writers take turns: the locks of all keys come before the first identity, in the order of their numbers, so that no two
 * transactions wait for each other in a circle because of one call.
 */
export function appender(
  table: string,
): (rows: readonly OutboxRow[], session: { readonly sendsTogether: boolean }) => readonly Statement[] {
  const texts = new Map<number, string>(preparedRows.map((rows) => [rows, appendSql(table, rows)]))
  const lockingTexts = new Map<number, string>(preparedRows.map((rows) => [rows, lockingAppendSql(table, rows)]))

  function statementOf(rows: readonly OutboxRow[], { locks }: { readonly locks: boolean }): Statement {
    const parameters: unknown[] = []
    for (const row of rows) {
      const { destination, id, type, contentType, orderingKey, partition, data, attributes, delay } = row
      parameters.push(destination, id, type, contentType, orderingKey, partition, data, attributes, delay)
    }
    const prepared = (locks ? lockingTexts : texts).get(rows.length)
    if (prepared !== undefined) return { sql: prepared, parameters, prepare: true }
    return { sql: locks ? lockingAppendSql(table, rows.length) : appendSql(table, rows.length), parameters }
  }

  return function append(rows, { sendsTogether }) {
    const ordered = rows.filter((row) => row.ordered)
    const locks = ordered.length > 0
    if (texts.has(rows.length)) return [statementOf(rows, { locks })]
    if (locks && !sendsTogether && rows.length <= mostRows) return [statementOf(rows, { locks })]
    const statements: Statement[] = locks ? [lockStatement(table, ordered)] : []
    for (let start = 0; start < rows.length; ) {
      const left = rows.length - start
      const count = sendsTogether ? (preparedRows.find((size) => size <= left) ?? left) : Math.min(left, mostRows)
      statements.push(statementOf(rows.slice(start, start + count), { locks: false }))
      start += count
    }
    return statements
  }
}

/** Destination, id, type, content type, ordering key, partition, data, attributes. */
const columnTypes = ['text', 'text', 'text', 'text', 'text', 'smallint', 'bytea', 'text']

const columns = 'state, destination, id, type, content_type, ordering_key, partition, data, attributes, available_at'

function appendSql(table: string, rows: number): string {
  return `INSERT INTO ${table} (${columns})
VALUES ${valuesSql(rows)}`
}

/** Locks before it takes an identity: that is done row by row, for what comes out of the join, and the join waits for the locks. */
function lockingAppendSql(table: string, rows: number): string {
  const keys = Array.from({ length: rows }, (_, row) => `($${row * 9 + 1}::text, $${row * 9 + 5}::text)`)
  return `WITH locked AS MATERIALIZED (${locksSql(table, `VALUES ${keys.join(', ')}`)})
INSERT INTO ${table} (${columns})
SELECT row.* FROM (VALUES ${valuesSql(rows)}) AS row CROSS JOIN (SELECT count(*) FROM locked) AS locks`
}

/** Locks the keys of rows that come with several statements. */
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

function valuesSql(rows: number): string {
  let count = 0
  const next = (type: string) => {
    count += 1
    return `$${count}::${type}`
  }
  const values = Array.from({ length: rows }, () => {
    const given = columnTypes.map(next)
    const delay = next('float8')
    return `(CASE WHEN ${delay} > 0 THEN 'waiting' ELSE 'ready' END, ${given.join(', ')}, clock_timestamp() + ${delay} * interval '1 millisecond')`
  })
  return values.join(', ')
}

/** A statement per row, which is prepared: they are few, and go together with others where that is cheaper. */
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
 * The number of the advisory lock that writers of a key hold until they commit. `destination` and `key` are expressions. It is made of a text that
 * nobody else uses and of the table itself, which is the same by whatever name it is found.
 */
export function keyLockSql(table: string, destination: string, key: string): string {
  return `hashtextextended('ackord ' || ${destination} || chr(10) || ${key}, ${quoteLiteral(table)}::regclass::oid::bigint)`
}
