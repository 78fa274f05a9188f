import { errorNumberOf } from '../errors.ts'

/** Whatever `completion_type` the session has: the next transaction is not begun with it, and the connection is not ended. */
export const commitSql = 'COMMIT AND NO CHAIN NO RELEASE'
export const rollbackSql = 'ROLLBACK AND NO CHAIN NO RELEASE'

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

  /** Whether the server is not known to refuse them. */
  get allowed(): boolean {
    return !this.#refused
  }

  /** Begins a transaction with the statement. */
  first(sql: string): string {
    return remembered(this.#firsts, sql, 'START TRANSACTION; ', '')
  }

  /** Commits after the statement, unless that fails. */
  last(sql: string): string {
    return remembered(this.#lasts, sql, '', `; ${commitSql}`)
  }

  /** The statement was carried out alone, after an error that `refusesCompound`. */
  refuse(): void {
    this.#refused = true
  }
}

/** Whether the server may have refused it as such. A trigger can say the same: only if the statement alone is taken was it that. */
export function refusesCompound(error: unknown): boolean {
  return refusals.has(errorNumberOf(error) ?? 0)
}

/** No such table, not locked. */
const staleness = new Set([1146, 1100])

/**
 * Whether it may only be that it was prepared long ago: MariaDB 10.11 keeps the tables that triggers had when it ran first, and does not find those of a trigger that
 * was made since. Prepared anew, on another connection, it does.
 */
export function isStale(error: unknown): boolean {
  return staleness.has(errorNumberOf(error) ?? 0)
}

/** Texts are few, as only those of prepared statements come here; to make them anew would cost more than to send them. */
function remembered(known: Map<string, string>, sql: string, before: string, after: string): string {
  const text = known.get(sql) ?? `BEGIN NOT ATOMIC ${before}${sql}${after}; END`
  known.set(sql, text)
  return text
}
