import type { Logger } from '@ackord/core'
import type { Statement, StatementResult } from '../../contract/driver.ts'
import { inTransaction, runStatement, type SqliteClient, type SqliteStatement } from './client.ts'
import { BegunManually } from './locks.ts'

/** This savepoint disappears with the transaction: while it exists, the transaction is still the one that was begun. */
const mark = 'SAVEPOINT ackord_transaction'
const unmark = 'RELEASE ackord_transaction'

export type Synchronous = 'full' | 'normal'

/** A client used for writing. There is one of these per client, however often it is wrapped. */
export class SqliteConnection {
  readonly client: SqliteClient
  /** Prepared statements of handlers; the library keeps its own separately. */
  readonly statements: StatementCache
  readonly #prepared = new Map<string, SqliteStatement>()
  #isSetUp = false
  #isStuck = false

  /** Whether its open transaction was begun by the library. */
  isOurs = false

  /** The requested setting. */
  synchronous: Synchronous | undefined

  constructor(client: SqliteClient) {
    this.client = client
    this.statements = new StatementCache(client)
  }

  run({ sql, parameters = [], prepare = false }: Statement): StatementResult {
    return runStatement(prepare ? this.#prepare(sql) : this.client.prepare(sql), parameters)
  }

  /** Must be called again if it throws. Throws `BegunManually`, or that the file is locked. */
  begin(logger: Logger): void {
    this.checkFree(logger)
    this.client.exec(`BEGIN IMMEDIATE; ${mark}`)
    this.isOurs = true
  }

  mark(): void {
    this.run({ sql: mark, prepare: true })
  }

  /** Throws if the transaction is not the one that was begun. */
  unmark(): void {
    this.run({ sql: unmark, prepare: true })
  }

  /** Throws unless a statement would run in a transaction of its own. */
  checkFree(logger: Logger): void {
    if (this.#isStuck) this.rollBack()
    if (inTransaction(this.client)) throw new BegunManually('The client is in a transaction that was begun by hand.')
    if (!this.#isSetUp) this.#setUp(logger)
  }

  /** If it fails, it is retried before anything else. */
  rollBack(): void {
    this.#isStuck = true
    if (inTransaction(this.client)) this.client.exec('ROLLBACK')
    this.#isStuck = false
    this.isOurs = false
  }

  #prepare(sql: string): SqliteStatement {
    let statement = this.#prepared.get(sql)
    if (statement === undefined) {
      statement = this.client.prepare(sql)
      this.#prepared.set(sql, statement)
    }
    return statement
  }

  /** Not in the constructor: this writes to the file. */
  #setUp(logger: Logger): void {
    const pragma = (name: string) => Object.values(this.run({ sql: `PRAGMA ${name}` }).rows[0] ?? {})[0]
    // The library waits itself; see whileLocked().
    pragma('busy_timeout = 0')
    const mode = pragma('journal_mode = WAL')
    if (mode !== 'wal' && mode !== 'memory') {
      logger.warn({ mode }, 'The SQLite file cannot have a write-ahead log, so readers and the writer block each other.')
    }
    // Always set: clients may be compiled to lower it to NORMAL with WAL once the file is used, where a power failure loses the latest commits.
    if (this.synchronous === 'normal') this.client.exec('PRAGMA synchronous = NORMAL')
    else if (Number(pragma('synchronous')) < 3) this.client.exec('PRAGMA synchronous = FULL')
    this.#isSetUp = true
  }
}

/** The maximum number of cached statements. */
const maxStatements = 100

/** Methods that only run a statement; all others may change how it runs the next time. */
const harmless: ReadonlySet<unknown> = new Set(['run', 'get', 'all', 'iterate', 'columns'])

/** A statement while a transaction uses it. */
export interface BorrowedStatement {
  readonly statement: SqliteStatement
  /** Must be called with the name of every method that is used. */
  used(name: unknown): void
  failed(): void
}

/**
 * Caches statements that transactions have prepared, because preparing costs about as much as running. A transaction has exclusive use of a
 * statement, and a statement that was configured, or that failed, is not kept.
 */
export class StatementCache {
  readonly #client: SqliteClient
  readonly #kept = new Map<string, KeptStatement>()

  constructor(client: SqliteClient) {
    this.#client = client
  }

  /** `onBorrowed` receives a function to call at the end of the transaction. */
  borrow(sql: string, onBorrowed: (returnStatement: () => void) => void): BorrowedStatement {
    const known = this.#kept.get(sql)
    const kept = known === undefined || known.isInUse ? { statement: this.#client.prepare(sql), isInUse: true } : known
    kept.isInUse = true
    let isUnchanged = true
    onBorrowed(() => {
      if (isUnchanged) this.#keep(sql, kept)
      else if (this.#kept.get(sql) === kept) this.#kept.delete(sql)
    })
    return {
      statement: kept.statement,
      used(name) {
        if (!harmless.has(name)) isUnchanged = false
      },
      failed() {
        isUnchanged = false
      },
    }
  }

  #keep(sql: string, kept: KeptStatement): void {
    kept.isInUse = false
    const isFull = this.#kept.size >= maxStatements
    // Moves it to the end of the order of use; while the cache is not full the order does not matter.
    if (isFull) this.#kept.delete(sql)
    if (this.#kept.size >= maxStatements) {
      const [oldest] = this.#kept.keys()
      if (oldest !== undefined) this.#kept.delete(oldest)
    }
    if (isFull || !this.#kept.has(sql)) this.#kept.set(sql, kept)
  }
}

interface KeptStatement {
  readonly statement: SqliteStatement
  isInUse: boolean
}
