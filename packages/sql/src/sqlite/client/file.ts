import { AsyncLocalStorage } from 'node:async_hooks'
import { AckordError, InvalidOptionError } from '@ackord/core'
import { linkedController } from '@ackord/core/internal'
import { isOpen, runStatement, type SqliteClient, type SqliteHandle } from './client.ts'
import { SqliteConnection, type Synchronous } from './connection.ts'
import { outsideHandle } from './handle.ts'
import { type LockWait, WriterMutex } from './locks.ts'

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
