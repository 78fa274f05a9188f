import { DatabaseSync, type DatabaseSyncInstance, type StatementSyncInstance } from '@photostructure/sqlite'

/** The names of SQLite's error codes by number. better-sqlite3 reports only the names. */
const codes: Readonly<Record<number, string>> = {
  1: 'SQLITE_ERROR',
  5: 'SQLITE_BUSY',
  6: 'SQLITE_LOCKED',
  8: 'SQLITE_READONLY',
  10: 'SQLITE_IOERR',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
  19: 'SQLITE_CONSTRAINT',
}

class SqliteError extends Error {
  readonly code: string

  constructor(message: string, code: string) {
    super(message)
    this.name = 'SqliteError'
    this.code = code
  }
}

/** Stands in for better-sqlite3, which takes minutes to compile when it is installed. It has the same API, including all differences from node:sqlite. */
export class BetterShape {
  readonly #database: DatabaseSyncInstance
  readonly #path: string
  #iterating = 0

  constructor(path: string, options: { readonly readonly?: boolean } = {}) {
    this.#database = new DatabaseSync(path, { readOnly: options.readonly ?? false, timeout: 5000 })
    this.#path = path
    // The compile-time default of better-sqlite3.
    this.#database.exec('PRAGMA synchronous = NORMAL')
  }

  get name(): string {
    return this.#path
  }

  get open(): boolean {
    return this.#database.isOpen
  }

  get inTransaction(): boolean {
    return this.#database.isOpen && this.#database.isTransaction
  }

  prepare(sql: string): BetterStatement {
    this.#checkOpen()
    return new BetterStatement(
      translated(() => this.#database.prepare(sql)),
      {
        check: () => this.#checkOpen(),
        iterating: (by) => {
          this.#iterating += by
        },
      },
    )
  }

  exec(sql: string): this {
    this.#checkOpen()
    translated(() => this.#database.exec(sql))
    return this
  }

  pragma(sql: string): unknown[] {
    return translated(() => this.#database.prepare(`PRAGMA ${sql}`).all())
  }

  close(): this {
    this.#database.close()
    return this
  }

  #checkOpen(): void {
    if (!this.#database.isOpen) throw new TypeError('The database connection is not open')
    if (this.#iterating > 0) throw new TypeError('This database connection is busy executing a query')
  }
}

interface Owner {
  check(): void
  iterating(by: number): void
}

class BetterStatement {
  readonly #statement: StatementSyncInstance
  readonly #owner: Owner
  #plucked = false

  constructor(statement: StatementSyncInstance, owner: Owner) {
    this.#statement = statement
    this.#owner = owner
  }

  get reader(): boolean {
    return this.#statement.columns().length > 0
  }

  columns(): unknown[] {
    if (!this.reader) throw new TypeError('The columns() method is only for statements that return data')
    return this.#statement.columns()
  }

  pluck(): this {
    this.#plucked = true
    return this
  }

  run(...parameters: unknown[]): { changes: number; lastInsertRowid: number | bigint } {
    this.#owner.check()
    return translated(() => this.#statement.run(...parameters))
  }

  get(...parameters: unknown[]): unknown {
    return this.all(...parameters)[0]
  }

  all(...parameters: unknown[]): unknown[] {
    this.#owner.check()
    if (!this.reader) throw new TypeError('This statement does not return data. Use run() instead')
    return translated(() => this.#statement.all(...parameters)).map((row) => this.#shown(row))
  }

  iterate(...parameters: unknown[]): IterableIterator<unknown> {
    this.#owner.check()
    const rows = this.#statement.iterate(...parameters)
    this.#owner.iterating(1)
    let isOver = false
    const end = () => {
      if (!isOver) this.#owner.iterating(-1)
      isOver = true
      return { done: true as const, value: undefined }
    }
    const shown = (row: unknown) => this.#shown(row)
    return {
      next() {
        const step = translated(() => rows.next())
        return step.done === true ? end() : { done: false, value: shown(step.value) }
      },
      return() {
        rows.return?.()
        return end()
      },
      [Symbol.iterator]() {
        return this
      },
    }
  }

  #shown(row: unknown): unknown {
    const entries = Object.entries(row as Record<string, unknown>).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? Buffer.from(value) : value,
    ])
    return this.#plucked ? entries[0]?.[1] : Object.fromEntries(entries)
  }
}

function translated<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof Error) || !('errcode' in error)) throw error
    const code = codes[Number(error.errcode) & 0xff]
    if (code === undefined) throw error
    throw new SqliteError(error.message, code)
  }
}
