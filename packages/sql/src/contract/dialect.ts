import type { InboxKey } from '@ackord/outbox'
import { SchemaError } from '../errors.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { Session, Statement } from './driver.ts'
import type { StoreDialect } from './store-dialect.ts'

export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

export interface TransactionSettings {
  /**
   * Default: the server's: `read committed` on PostgreSQL and `repeatable read` on MySQL, unless the server is configured otherwise. Stricter levels
   * cost retries.
   */
  readonly isolation?: Isolation | undefined
  /** Milliseconds after which the server cancels a statement. Default: the server's. 0: no limit. */
  readonly statementTimeout?: number | undefined
  /** Milliseconds to wait for a lock, such as that of a duplicate being handled elsewhere. Default: the server's. 0: no limit. */
  readonly lockTimeout?: number | undefined
  /**
   * Milliseconds after which the server ends an idle transaction, because its handler waits for something else. Default: the server's. 0: no limit.
   */
  readonly idleTimeout?: number | undefined
}

/** The part of a session that records several messages. */
export type RecordingSession = Pick<Session<unknown>, 'run' | 'change' | 'reportsRows'>

/** Where records are stored. */
export interface AppendTarget {
  /** The outbox table, quoted. */
  readonly outbox: string
  /** In log mode: the log, and the table that says which part of it is written. Delayed records are stored in the outbox table. */
  readonly log?: { readonly table: string; readonly meta: string } | undefined
}

/** The table that most of the records are stored in. */
export function tableOf({ outbox, log }: AppendTarget): string {
  return log?.table ?? outbox
}

/** The differences between databases. */
export interface Dialect {
  /** The statements of the outbox store, the schema and the cleanup. */
  readonly store: StoreDialect
  /** Quotes a name. Throws if the name is invalid. */
  quote(option: string, name: string): string
  /** The statements sent with BEGIN, in the form that the drivers of this database expect; empty if no setting was given. */
  settings(settings: TransactionSettings): readonly string[]
  /** Whether the transaction lost a conflict with another one, so that running it again may succeed. */
  isConflict(error: unknown): boolean
  /** Whether a statement exceeded its lock timeout. Absent where that cannot happen. */
  isLockTimeout?(error: unknown): boolean
  /** Whether the database currently refuses all writes: its disk is full, or it is read-only. */
  refusesWrites(error: unknown): boolean
  /**
   * The statement that asks the database itself, on another connection, about an error that a statement of the handler may also cause: it returns a
   * row if writes are refused. `undefined` if the error alone is conclusive. Absent where it always is.
   */
  confirmRefusal?(error: unknown): string | undefined
  /** Whether a statement of the library failed because the tables do not exist. */
  isSchemaMissing(error: unknown): boolean
  /** Whether an existing table may not be found because a session setting decides where it is looked up. Absent where there is no such setting. */
  mayBeInvisible?(table: string): boolean
  /**
   * The statement that records a message: it changes one row, or none if the key already exists, which it may report with an error (`none`). Waits
   * for a transaction that is about to write the same key. Never aborts the transaction because of a duplicate.
   */
  recorder(table: string): (key: InboxKey) => Statement
  /**
   * Records several messages with one statement and returns the keys that did not exist before. Keys must be sorted and unique, so that no two
   * callers deadlock. Rejects where the result cannot be determined; the messages are then handled one by one.
   */
  recordAll(session: RecordingSession, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]>
  /** Deletes recorded messages and returns the keys that existed. Keys as for `recordAll`. */
  forgetAll(session: RecordingSession, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]>
  /**
   * The statements that insert records in order; more than one if there are too many records, or if further statements are free because they are
   * pipelined.
   */
  appender(target: AppendTarget): (rows: readonly OutboxRow[], session: { readonly supportsPipelining: boolean }) => readonly Statement[]
  /** The statement that notifies other processes of rows stored in a table once its transaction commits. Absent where there is none. */
  notifier?(table: string): Statement
  /** Absent where statements cannot report the rows they stored. */
  leasedAppender?(table: string): LeasedAppender
}

/** The statements that insert records in order, each leased for `duration` milliseconds by the database's clock, with its first attempt counted. */
export type LeasedAppender = (
  rows: readonly OutboxRow[],
  lease: {
    readonly token: string
    readonly duration: number
    /** Called with each stored row, in order. `createdAt` is in milliseconds. */
    readonly onStored: (seq: string, createdAt: number) => void
  },
) => readonly Statement[]

/** Returns the error, or for missing tables one that says how to create them. */
export function explainMissing(dialect: Dialect, error: unknown, table: string): unknown {
  if (!dialect.isSchemaMissing(error)) return error
  const invisible = dialect.mayBeInvisible?.(table) === true ? invisibleText : ''
  const text = `The table ${table} does not exist, or lacks a column. Run createSchema(database) when you deploy.${invisible}`
  return new SchemaError('missing', text, { cause: error })
}

/** The same statements, with better errors. Each must return a promise. */
export function explaining<Statements extends object>(statements: Statements, explain: (error: unknown) => unknown): Statements {
  const wrapped = Object.entries(statements).map(([name, call]) => [
    name,
    async (...given: unknown[]) => {
      try {
        return await (call as (...given: unknown[]) => Promise<unknown>)(...given)
      } catch (error) {
        throw explain(error)
      }
    },
  ])
  // Each under its own name, with the same parameters and result.
  return Object.fromEntries(wrapped) as Statements
}

const invisibleText =
  ' If the tables exist, check the search_path of the transaction: a handler may have changed it. The option `schema` makes the names independent of it.'
