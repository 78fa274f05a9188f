import type { StatementResult } from '../driver.ts'

export interface MysqlAnswer extends StatementResult {
  /** Whether the connection is in a transaction afterwards; `undefined` if the answer does not tell. */
  readonly inTransaction: boolean | undefined
  /** Whether statements outside of transactions are committed by themselves. */
  readonly autocommit: boolean | undefined
}

/** What our own statements need of a pool or a connection. `sql` is its own form of a statement with options. */
export interface MysqlQueryable {
  query(sql: never): Promise<unknown>
  execute(sql: never): Promise<unknown>
}

export interface MysqlConnection extends MysqlQueryable {
  /** Gives it back to its pool. */
  release(): void | Promise<void>
  /** Ends it; the pool makes another. */
  destroy(): void
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
}

export interface MysqlPool extends MysqlQueryable {
  getConnection(): Promise<MysqlConnection>
}

/** A statement of ours, ready to be sent. */
export interface WireStatement {
  readonly call: 'query' | 'execute'
  readonly sql: string
  readonly values: readonly unknown[]
  /** Whether it gives rows, so that it needs the options by which we read them, whatever the pool was made with. */
  readonly givesRows: boolean
  /** Makes a better error of what it fails with. */
  readonly explain: (error: unknown) => unknown
}

/** What differs between drivers. */
export interface MysqlWire {
  /** The adapter, for texts. */
  readonly name: string
  /** The calls by which adapters send statements. */
  readonly calls: readonly string[]
  /** Sends a statement of ours and reads the answer. */
  send(handle: MysqlQueryable, statement: WireStatement): Promise<MysqlAnswer>
  /** Reads what a call of an adapter gave back. */
  read(handle: MysqlQueryable, result: unknown): MysqlAnswer
}

/** The flags SERVER_STATUS_IN_TRANS and SERVER_STATUS_AUTOCOMMIT of a status. */
export function readStatus(status: unknown): Pick<MysqlAnswer, 'inTransaction' | 'autocommit'> {
  if (typeof status !== 'number') return { inTransaction: undefined, autocommit: undefined }
  return { inTransaction: (status & 1) !== 0, autocommit: (status & 2) !== 0 }
}
