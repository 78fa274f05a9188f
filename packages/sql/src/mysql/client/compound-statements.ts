import { errorNumberOf } from '../errors.ts'

/** Independent of the `completion_type` of the session: COMMIT neither begins the next transaction nor closes the connection. */
export const commitSql = 'COMMIT AND NO CHAIN NO RELEASE'
export const rollbackSql = 'ROLLBACK AND NO CHAIN NO RELEASE'

/** Syntax error; statement cannot be prepared. */
const refusals = new Set([1064, 1295])

/**
 * Combines two statements into one, which saves a round trip: MariaDB runs `BEGIN NOT ATOMIC … END`, also prepared. MySQL rejects it without running
 * any of it; from then on each statement is sent alone.
 */
export class CompoundStatements {
  readonly #firsts = new Map<string, string>()
  readonly #lasts = new Map<string, string>()
  #refused = false

  /** Whether the server is not known to reject them. */
  get allowed(): boolean {
    return !this.#refused
  }

  /** Begins a transaction with the statement. */
  first(sql: string): string {
    return remembered(this.#firsts, sql, 'START TRANSACTION; ', '')
  }

  /** Commits after the statement, unless the statement fails. */
  last(sql: string): string {
    return remembered(this.#lasts, sql, '', `; ${commitSql}`)
  }

  /** Called after the statement succeeded alone, following an error that `refusesCompound` recognised. */
  refuse(): void {
    this.#refused = true
  }
}

/**
 * Whether the server may have rejected the compound form. A trigger can cause the same error: only if the statement alone succeeds was it the
 * compound form.
 */
export function refusesCompound(error: unknown): boolean {
  return refusals.has(errorNumberOf(error) ?? 0)
}

/** No such table, table not locked. */
const staleness = new Set([1146, 1100])

/**
 * Whether the statement may merely have been prepared too long ago: MariaDB 10.11 keeps the tables that triggers used when the statement first ran,
 * and does not find the tables of a trigger created later. Prepared again, on another connection, it does.
 */
export function isStale(error: unknown): boolean {
  return staleness.has(errorNumberOf(error) ?? 0)
}

/** There are few texts, because only prepared statements use this; building them each time would cost more than sending them. */
function remembered(known: Map<string, string>, sql: string, before: string, after: string): string {
  const text = known.get(sql) ?? `BEGIN NOT ATOMIC ${before}${sql}${after}; END`
  known.set(sql, text)
  return text
}
