import { AsyncLocalStorage } from 'node:async_hooks'
import { AckordError, InvalidOptionError, type Logger } from '@ackord/core'
import { linkedController } from '@ackord/core/internal'
import type { Statement, StatementResult } from '../../contract/driver.ts'
import { inTransaction, isOpen, runStatement, type SqliteClient, type SqliteHandle, type SqliteStatement } from './client.ts'
import { type BorrowedStatement, outsideHandle } from './handle.ts'
import { BegunManually, type LockWait, WriterMutex } from './locks.ts'

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

export interface SqliteSetup {
  readonly reader: SqliteClient | undefined
  readonly synchronous: Synchronous | undefined
}

/** The holder of the file, as seen by the code that runs inside. */
interface Holder {
  readonly file: SqliteFile
  readonly outer: Holder | undefined
  isOver: boolean
}

/** The right to use the file. */
export interface Turn {
  /** Runs code that may request the same file again, and would then wait for itself. */
  inside<T>(work: () => Promise<T>): Promise<T>
  /** Lets the next one in. Idempotent. */
  end(): void
}

const holders = new AsyncLocalStorage<Holder>()

/** Shared by all clients of this process on the file, so that each knows about the transactions of the others. */
export class SqliteFile {
  /** The handle used outside of transactions. */
  readonly pool: SqliteHandle = outsideHandle(() => this.reader)
  readonly mutex: WriterMutex = new WriterMutex()
  readonly #connections = new Map<SqliteClient, SqliteConnection>()
  reader: SqliteClient | undefined

  /**
   * Waits for all earlier requests on this file, in this process. A request from inside of the transaction that has the turn may be what that
   * transaction waits for, so it does not wait longer than for another process. Returns the turn synchronously if it is free.
   */
  enter(wait: LockWait): Turn | Promise<Turn> {
    const outer = holders.getStore()
    const release = wait.signal?.aborted === true ? undefined : this.mutex.enter()
    if (release !== undefined) return this.#turn(release, outer)
    const turn = (released: () => void) => this.#turn(released, outer)
    return this.#isInside(outer) ? this.#acquireInside(turn, wait) : this.mutex.acquire(turn, wait.signal)
  }

  #turn(release: () => void, outer: Holder | undefined): Turn {
    const holder: Holder = { file: this, outer, isOver: false }
    return {
      inside: (work) => holders.run(holder, work),
      end() {
        holder.isOver = true
        release()
      },
    }
  }

  #isInside(holder: Holder | undefined): boolean {
    for (let each = holder; each !== undefined; each = each.outer) if (each.file === this && !each.isOver) return true
    return false
  }

  async #acquireInside(turn: (release: () => void) => Turn, { runtime, timeout, signal }: LockWait): Promise<Turn> {
    using limit = linkedController(signal ?? new AbortController().signal)
    const timer = timeout === 0 ? undefined : runtime.setTimeout(() => limit.abort(waitsForOwnTransaction(timeout)), timeout)
    try {
      return await this.mutex.acquire(turn, limit.signal)
    } finally {
      timer?.cancel()
    }
  }

  connect(client: SqliteClient, { reader, synchronous }: SqliteSetup): SqliteConnection {
    let connection = this.#connections.get(client)
    if (connection === undefined) {
      for (const known of this.#connections.keys()) if (!isOpen(known)) this.#connections.delete(known)
      connection = new SqliteConnection(client)
      this.#connections.set(client, connection)
    }
    if (reader !== undefined && reader !== this.reader) this.#useReader(reader)
    if (synchronous !== undefined) {
      if (connection.synchronous !== undefined && connection.synchronous !== synchronous) {
        throw new InvalidOptionError('synchronous', `was '${connection.synchronous}' when this client was given before.`)
      }
      connection.synchronous = synchronous
    }
    return connection
  }

  /** Whether a client of this file is in a transaction of the library. */
  isOurs(client: unknown): boolean {
    return this.#connections.get(client as SqliteClient)?.isOurs ?? false
  }

  /** Whether it can still be used. A file of the same name may be another one by then. */
  isInUse(): boolean {
    return [...this.#connections.keys()].some(isOpen)
  }

  #useReader(reader: SqliteClient): void {
    if (this.#connections.has(reader)) throw new InvalidOptionError('reader', 'must be a connection of its own.')
    if (this.reader !== undefined && isOpen(this.reader))
      throw new InvalidOptionError('reader', 'must be the reader that this file already has.')
    reader.exec('PRAGMA query_only = ON')
    this.reader = reader
  }
}

const files = new Map<string, WeakRef<SqliteFile>>()
const filesInMemory = new WeakMap<SqliteClient, SqliteFile>()

/** The file that a client has open. An in-memory database belongs to its client. */
export function fileOf(client: SqliteClient): SqliteFile {
  const { rows } = runStatement(client.prepare('PRAGMA database_list'), [])
  const path = String(rows.find(({ name }) => name === 'main')?.['file'] ?? '')
  const known = path === '' ? filesInMemory.get(client) : files.get(path)?.deref()
  if (known?.isInUse()) return known
  const file = new SqliteFile()
  if (path === '') filesInMemory.set(client, file)
  else files.set(path, new WeakRef(file))
  for (const [other, reference] of files) if (reference.deref() === undefined) files.delete(other)
  return file
}

function waitsForOwnTransaction(timeout: number): AckordError {
  return new AckordError(
    'ACKORD_DATABASE_BUSY',
    `Code inside of a transaction requested the same SQLite file, and waited ${timeout} ms (lockTimeout) for that transaction to end. Use database.executor(), or pass the context of the transaction to database.write().`,
  )
}
