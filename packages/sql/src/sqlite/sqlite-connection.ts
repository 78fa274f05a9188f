import type { Logger } from '@ackord/core'
import type { Statement, StatementResult } from '../driver.ts'
import { inTransaction, runStatement, type SqliteClient, type SqliteStatement } from './sqlite-client.ts'
import { StatementCache } from './statement-cache.ts'
import { BegunByHand } from './while-locked.ts'

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
    this.client.exec('BEGIN IMMEDIATE')
    this.isOurs = true
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
