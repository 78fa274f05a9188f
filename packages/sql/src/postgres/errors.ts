import { adapterCause, prismaCode } from '../orm/prisma.ts'

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

/**
 * The error of the server behind one of Prisma. Prisma's own codes are as long as those of PostgreSQL and would be taken for them, so an
 * error with one is wrapped.
 */
export function serverError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const cause = adapterCause(error)
  if (cause !== undefined) {
    return Object.assign(new Error(cause.originalMessage ?? error.message, { cause: error }), { code: cause.originalCode })
  }
  return prismaCode(error) === undefined ? error : new Error(error.message, { cause: error })
}

/** As the dialect has it, for errors of Prisma and what handlers wrap around them. */
export function isPrismaConflict(error: unknown): boolean {
  let current = error
  for (let depth = 0; depth < 10 && current instanceof Error; depth += 1) {
    const code = prismaCode(current)
    if (code === 'P2034') return true
    const state = adapterCause(current)?.originalCode ?? (code === undefined ? sqlStateOf(current) : undefined)
    if (state !== undefined) return state === '40001' || state === '40P01' // serialization failure, deadlock
    current = current.cause
  }
  return false
}
