import type { StatementResult } from '../../contract/driver.ts'
import type { Row } from '../../records/row.ts'

/** What is used of a prepared statement of node:sqlite or better-sqlite3. */
export interface SqliteStatement {
  run(...parameters: unknown[]): { readonly changes: number | bigint }
  all(...parameters: unknown[]): unknown[]
}

/** What is used of a `DatabaseSync` of node:sqlite, or of a `Database` of better-sqlite3. */
export interface SqliteClient {
  prepare(sql: string): SqliteStatement
  exec(sql: string): unknown
  /** As node:sqlite tells it. */
  readonly isTransaction?: boolean
  /** As better-sqlite3 tells it. */
  readonly inTransaction?: boolean
}

/** What a client and a transaction share. */
export type SqliteHandle = Pick<SqliteClient, 'prepare' | 'exec'>

/** In what the clients differ, beyond what they have to have. */
interface ClientDifferences {
  /** node:sqlite. */
  readonly isOpen?: boolean
  /** better-sqlite3; a function in node:sqlite. */
  readonly open?: unknown
}

/** In what their statements differ. */
interface StatementDifferences {
  /** better-sqlite3: whether it gives rows. */
  readonly reader?: boolean
  /** node:sqlite: none if it gives no rows. (better-sqlite3 has it too, and throws there.) */
  columns?(): readonly unknown[]
  /** node:sqlite: undoes a setting of the connection. */
  setReturnArrays?(on: boolean): void
}

/** Whether a transaction is open on the connection. Throws if the connection is closed, where the client does. */
export function inTransaction(client: SqliteClient): boolean {
  return client.isTransaction ?? client.inTransaction ?? false
}

/** Tells by what the client says, because a statement is also refused while it is busy. */
export function isOpen(client: SqliteClient & ClientDifferences): boolean {
  return client.isOpen ?? (typeof client.open === 'boolean' ? client.open : true)
}

/** Which statements give rows: the clients make a list of columns whenever they are asked. */
const readers = new WeakMap<SqliteStatement, boolean>()

function givesRows(statement: SqliteStatement & StatementDifferences): boolean {
  let gives = readers.get(statement)
  if (gives === undefined) {
    gives = statement.reader ?? statement.columns?.().length !== 0
    readers.set(statement, gives)
  }
  return gives
}

export function runStatement(statement: SqliteStatement, parameters: readonly unknown[]): StatementResult {
  const differences = statement as SqliteStatement & StatementDifferences
  if (!givesRows(differences)) return { rows: [], count: Number(statement.run(...parameters).changes) }
  differences.setReturnArrays?.(false)
  // Rows are objects: neither client makes anything else of them unless it is asked to.
  const rows = statement.all(...parameters) as Row[]
  return { rows, count: rows.length }
}
