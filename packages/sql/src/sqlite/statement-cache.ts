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
  readonly #idle = new Map<string, SqliteStatement>()

  constructor(client: SqliteClient) {
    this.#client = client
  }

  /** `onBorrowed` gets what is to be called at the end of the transaction. */
  borrow(sql: string, onBorrowed: (giveBack: () => void) => void): BorrowedStatement {
    const known = this.#idle.get(sql)
    if (known !== undefined) this.#idle.delete(sql)
    const statement = known ?? this.#client.prepare(sql)
    let asItWas = true
    onBorrowed(() => {
      if (asItWas) this.#keep(sql, statement)
    })
    return {
      statement,
      used(name) {
        if (!harmless.has(name)) asItWas = false
      },
      failed() {
        asItWas = false
      },
    }
  }

  #keep(sql: string, statement: SqliteStatement): void {
    if (this.#idle.size >= most) {
      const [oldest] = this.#idle.keys()
      if (oldest !== undefined) this.#idle.delete(oldest)
    }
    this.#idle.set(sql, statement)
  }
}
