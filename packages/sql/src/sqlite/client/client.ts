import type { StatementResult } from '../../contract/driver.ts'
import type { Row } from '../../records/row.ts'

/** The part of a prepared statement of node:sqlite or better-sqlite3 that is used. */
export interface SqliteStatement {
  run(...parameters: unknown[]): { readonly changes: number | bigint }
  all(...parameters: unknown[]): unknown[]
}

/** The part of a `DatabaseSync` of node:sqlite, or of a `Database` of better-sqlite3, that is used. */
export interface SqliteClient {
  prepare(sql: string): SqliteStatement
  exec(sql: string): unknown
  /** In node:sqlite. */
  readonly isTransaction?: boolean
  /** In better-sqlite3. */
  readonly inTransaction?: boolean
}

/** The methods that a client and a transaction share. */
export type SqliteHandle = Pick<SqliteClient, 'prepare' | 'exec'>

/** Optional differences between the clients. */
interface ClientDifferences {
  /** node:sqlite. */
  readonly isOpen?: boolean
  /** better-sqlite3; a function in node:sqlite. */
  readonly open?: unknown
}

/** Differences between their statements. */
interface StatementDifferences {
  /** better-sqlite3: whether it returns rows. */
  readonly reader?: boolean
  /** node:sqlite: empty if it returns no rows. (better-sqlite3 has it too, and throws in that case.) */
  columns?(): readonly unknown[]
  /** node:sqlite: overrides a setting of the connection. */
  setReturnArrays?(on: boolean): void
}

/** Whether a transaction is open on the connection. Throws if the connection is closed, where the client does. */
export function inTransaction(client: SqliteClient): boolean {
  return client.isTransaction ?? client.inTransaction ?? false
}

/** Uses the client's own property, because a statement is also rejected while the connection is busy. */
export function isOpen(client: SqliteClient & ClientDifferences): boolean {
  return client.isOpen ?? (typeof client.open === 'boolean' ? client.open : true)
}

/** Whether statements return rows: the clients build a list of columns on every call. */
const readers = new WeakMap<SqliteStatement, boolean>()

function returnsRows(statement: SqliteStatement & StatementDifferences): boolean {
  let gives = readers.get(statement)
  if (gives === undefined) {
    gives = statement.reader ?? statement.columns?.().length !== 0
    readers.set(statement, gives)
  }
  return gives
}

export function runStatement(statement: SqliteStatement, parameters: readonly unknown[]): StatementResult {
  const differences = statement as SqliteStatement & StatementDifferences
  if (!returnsRows(differences)) return { rows: [], count: Number(statement.run(...parameters).changes) }
  differences.setReturnArrays?.(false)
  // Rows are objects, unless the client is configured otherwise.
  const rows = statement.all(...parameters) as Row[]
  return { rows, count: rows.length }
}
