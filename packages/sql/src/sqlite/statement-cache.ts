import type { SqliteClient, SqliteStatement } from './sqlite-client.ts'

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
