import type { Logger } from '@ackord/core'
import type { Statement, StatementResult } from '../../contract/driver.ts'
import { inTransaction, runStatement, type SqliteClient, type SqliteStatement } from './client.ts'
import { BegunByHand } from './locks.ts'

/** Gone with the transaction: while it is there, the transaction is still the one that was begun. */
const mark = 'SAVEPOINT ackord_transaction'
const unmark = 'RELEASE ackord_transaction'

export type Synchronous = 'full' | 'normal'

/** A client that we write with. There is one of these for it, however often it is wrapped. */
export class SqliteConnection {
  readonly client: SqliteClient
  /** Those of handlers; ours are our own. */
  readonly statements: StatementCache
  readonly #prepared = new Map<string, SqliteStatement>()
  #isSetUp = false
  #isStuck = false

  /** Whether the transaction that is open on it is one of ours. */
  isOurs = false

  /** What was asked for. */
  synchronous: Synchronous | undefined

  constructor(client: SqliteClient) {
    this.client = client
    this.statements = new StatementCache(client)
  }

  run({ sql, parameters = [], prepare = false }: Statement): StatementResult {
    return runStatement(prepare ? this.#prepare(sql) : this.client.prepare(sql), parameters)
  }

  /** To be called again if it throws. Throws `BegunByHand`, or that the file is locked. */
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

  /** Throws unless a statement would be a transaction of its own. */
  checkFree(logger: Logger): void {
    if (this.#isStuck) this.rollBack()
    if (inTransaction(this.client)) throw new BegunByHand('The client is in a transaction that was begun by hand.')
    if (!this.#isSetUp) this.#setUp(logger)
  }

  /** If it fails, it is tried again before anything else is done. */
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

  /** Not where the object is made: this writes to the file. */
  #setUp(logger: Logger): void {
    const pragma = (name: string) => Object.values(this.run({ sql: `PRAGMA ${name}` }).rows[0] ?? {})[0]
    // We wait ourselves; see whileLocked().
    pragma('busy_timeout = 0')
    const mode = pragma('journal_mode = WAL')
    if (mode !== 'wal' && mode !== 'memory') {
      logger.warn({ mode }, 'The SQLite file cannot have a write-ahead log, so readers and the writer keep each other waiting.')
    }
    // Set in any case: clients are compiled to go down to NORMAL with WAL, once the file is used, where a power cut takes the latest commits.
    if (this.synchronous === 'normal') this.client.exec('PRAGMA synchronous = NORMAL')
    else if (Number(pragma('synchronous')) < 3) this.client.exec('PRAGMA synchronous = FULL')
    this.#isSetUp = true
  }
}

/** How many texts are kept. */
const most = 100

/** What only runs a statement; everything else may change how it runs the next time. */
const harmless: ReadonlySet<unknown> = new Set(['run', 'get', 'all', 'iterate', 'columns'])

/** A statement while a transaction has it. */
export interface BorrowedStatement {
  readonly statement: SqliteStatement
  /** To be told of everything that is done with it. */
  used(name: unknown): void
  failed(): void
}

/**
 * Statements that transactions have prepared, for the next one that prepares the same: preparing costs about as much as running. A transaction has a
 * statement for itself, and one that was set to something, or failed, is not kept.
 */
export class StatementCache {
  readonly #client: SqliteClient
  readonly #kept = new Map<string, KeptStatement>()

  constructor(client: SqliteClient) {
    this.#client = client
  }

  /** `onBorrowed` gets what is to be called at the end of the transaction. */
  borrow(sql: string, onBorrowed: (giveBack: () => void) => void): BorrowedStatement {
    const known = this.#kept.get(sql)
    const kept = known === undefined || known.isLent ? { statement: this.#client.prepare(sql), isLent: true } : known
    kept.isLent = true
    let asItWas = true
    onBorrowed(() => {
      if (asItWas) this.#keep(sql, kept)
      else if (this.#kept.get(sql) === kept) this.#kept.delete(sql)
    })
    return {
      statement: kept.statement,
      used(name) {
        if (!harmless.has(name)) asItWas = false
      },
      failed() {
        asItWas = false
      },
    }
  }

  #keep(sql: string, kept: KeptStatement): void {
    kept.isLent = false
    const isFull = this.#kept.size >= most
    // Behind those that were used longer ago; while all have room nobody asks for the order.
    if (isFull) this.#kept.delete(sql)
    if (this.#kept.size >= most) {
      const [oldest] = this.#kept.keys()
      if (oldest !== undefined) this.#kept.delete(oldest)
    }
    if (isFull || !this.#kept.has(sql)) this.#kept.set(sql, kept)
  }
}

interface KeptStatement {
  readonly statement: SqliteStatement
  isLent: boolean
}
