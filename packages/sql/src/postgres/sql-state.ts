/** The five characters by which PostgreSQL tells errors apart; `undefined` for errors that did not come from the server. */
export function sqlStateOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) ? error.code : undefined
}

/** The state of the error, or of the one that caused it: middleware and handlers wrap what they get. */
export function deepSqlStateOf(error: unknown): string | undefined {
  let current = error
  for (let depth = 0; depth < 10 && current instanceof Error; depth += 1) {
    const state = sqlStateOf(current)
    if (state !== undefined) return state
    current = current.cause
  }
  return undefined
}

/**
 * Whether the answer to COMMIT means that nothing was committed. Not if the connection or the server went down: a backend that is
 * terminated may have committed before it says so (while it waits for a replica).
 */
export function refusedCommit(error: unknown): boolean {
  const state = sqlStateOf(error)
  return state !== undefined && state !== '40003' && !/^(08|57P|58|F0|XX)/.test(state)
}

/**
 * Whether a connection is of no use any more: the server said that it ends it, or has become one that only reads, as after a failover. What
 * was open on it is rolled back. The next connection finds the server that writes.
 */
export function endsConnection(error: unknown): error is Error {
  return /^(08|57P)/.test(sqlStateOf(error) ?? '') || isReadOnly(error)
}

/** Whether the server only reads. */
export function isReadOnly(error: unknown): error is Error {
  return sqlStateOf(error) === '25006'
}
