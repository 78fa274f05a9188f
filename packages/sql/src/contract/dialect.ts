import type { InboxKey } from '../records/inbox-key.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { Session, Statement } from './driver.ts'
import type { StoreDialect } from './store-dialect.ts'

export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

export interface TransactionSettings {
  /** Default: the server's: `read committed` on PostgreSQL and `repeatable read` on MySQL, unless somebody changed it. The stricter ones cost retries. */
  readonly isolation?: Isolation | undefined
  /** Milliseconds after which the server cancels a statement. Default: the server's. 0: no limit. */
  readonly statementTimeout?: number | undefined
  /** Milliseconds to wait for a lock, such as that of a duplicate which is being handled elsewhere. Default: the server's. 0: no limit. */
  readonly lockTimeout?: number | undefined
  /** Milliseconds after which the server ends a transaction in which nothing happens, because its handler waits for something else. Default: the server's. 0: no limit. */
  readonly idleTimeout?: number | undefined
}

/** What several messages are recorded in. */
export type RecordingSession = Pick<Session<unknown>, 'run' | 'change' | 'tellsRows'>

/** What differs between databases. */
export interface Dialect {
  /** What the outbox store, the schema and the cleanup are made of. */
  readonly store: StoreDialect
  /** Quotes a name, or throws at one that cannot be one. */
  quote(option: string, name: string): string
  /** The statements that go with BEGIN, as the database's drivers expect them; none if nothing was asked for. */
  settings(settings: TransactionSettings): readonly string[]
  /** Whether the transaction lost against another one, and would succeed if it were run again. */
  isConflict(error: unknown): boolean
  /** Whether a statement waited for a lock for longer than it may. Absent where that does not happen. */
  isLockTimeout?(error: unknown): boolean
  /** Whether the database takes no writes at the moment, whatever they are: its disk is full, or it only reads. */
  refusesWrites(error: unknown): boolean
  /**
   * The statement that asks the database itself, on another connection, for an error that a statement of the handler may cause as well: it gives a row if
   * writes are refused. `undefined` if the error is enough. Absent where it always is.
   */
  confirmRefusal?(error: unknown): string | undefined
  /** Whether a statement of ours failed because the tables are not there. */
  isSchemaMissing(error: unknown): boolean
  /** Whether a table that is there may not be found, because a setting of the session says where to look for it. Absent where none does. */
  mayBeInvisible?(table: string): boolean
  /**
   * The statement that records a message: it changes one row, or none if the key was there before, which it may say by an error (`none`).
   * Waits for a transaction that is about to write the same key. Never aborts the transaction for a duplicate.
   */
  recorder(table: string): (key: InboxKey) => Statement
  /**
   * Records several messages by one statement, and gives the keys that were not there before. They come sorted and without repetition, so
   * that no two callers wait for each other in a circle. Rejects where it cannot tell; the messages are then handled one by one.
   */
  recordAll(session: RecordingSession, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]>
  /** Forgets messages that were recorded, and gives the keys of those that were. The keys come as for `recordAll`. */
  forgetAll(session: RecordingSession, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]>
  /** The statement that inserts records, in their order; more than one if they are too many for it, or cost no more where statements are sent together. */
  appender(table: string): (rows: readonly OutboxRow[], session: { readonly sendsTogether: boolean }) => readonly Statement[]
  /** The statement that tells other processes of what is stored in a table, once its transaction commits. Absent where none does. */
  notifier?(table: string): Statement
  /** Absent where statements cannot say what they have stored. */
  leasedAppender?(table: string): LeasedAppender
}

/** The statements that insert records, in their order, each leased for `duration` milliseconds by the database's clock, with its first attempt counted. */
export type LeasedAppender = (
  rows: readonly OutboxRow[],
  lease: {
    readonly token: string
    readonly duration: number
    /** Told what each became, in their order. `createdAt` is in milliseconds. */
    readonly onStored: (seq: string, createdAt: number) => void
  },
) => readonly Statement[]
