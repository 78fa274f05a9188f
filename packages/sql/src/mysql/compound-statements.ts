import { errorNumberOf } from './mysql-error.ts'

/** It cannot be parsed; it cannot be prepared. */
const refusals = new Set([1064, 1295])

/**
 * Two statements that go to the server as one, and save a round trip: MariaDB runs `BEGIN NOT ATOMIC … END`, prepared too. MySQL refuses it, and then nothing of it
 * was done: from there on each goes alone.
 */
export class CompoundStatements {
  readonly #firsts = new Map<string, string>()
  readonly #lasts = new Map<string, string>()
  #refused = false

  /** Whether the server has not refused any yet. */
  get allowed(): boolean {
    return !this.#refused
  }

  /** Begins a transaction with the statement. */
  first(sql: string): string {
    return remembered(this.#firsts, sql, 'START TRANSACTION; ', '')
  }

  /** Commits after the statement, unless that fails. */
  last(sql: string): string {
    return remembered(this.#lasts, sql, '', '; COMMIT')
  }

  /** Whether the server has refused it as such, and no more are to be sent. */
  refusedBy(error: unknown): boolean {
    if (!refusals.has(errorNumberOf(error) ?? 0)) return false
    this.#refused = true
    return true
  }
}

/** Texts are few, as only those of prepared statements come here; to make them anew would cost more than to send them. */
function remembered(known: Map<string, string>, sql: string, before: string, after: string): string {
  const text = known.get(sql) ?? `BEGIN NOT ATOMIC ${before}${sql}${after}; END`
  known.set(sql, text)
  return text
}
