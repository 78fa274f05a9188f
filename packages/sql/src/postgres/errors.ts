import { causesOf } from '@ackord/core/internal'
import { adapterCause, prismaCode } from '../orm/prisma.ts'

/** The SQLSTATE of a PostgreSQL error; `undefined` for errors that did not come from the server. */
export function sqlStateOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) ? error.code : undefined
}

/** The SQLSTATE of the error or of its cause: middleware and handlers wrap errors. */
export function deepSqlStateOf(error: unknown): string | undefined {
  for (const cause of causesOf(error)) {
    const state = sqlStateOf(cause)
    if (state !== undefined) return state
  }
  return undefined
}

/**
 * Whether the answer to COMMIT means that nothing was committed. Not if the connection or the server went down: a terminated backend may have
 * committed before it reports the error (while it waits for a replica).
 */
export function refusedCommit(error: unknown): boolean {
  const state = sqlStateOf(error)
  return state !== undefined && state !== '40003' && !/^(08|57P|58|F0|XX)/.test(state)
}

/**
 * Whether a connection can no longer be used: the server is closing it, or has become read-only, as after a failover. The open transaction is rolled
 * back. A new connection reaches the writable server.
 */
export function endsConnection(error: unknown): error is Error {
  return /^(08|57P)/.test(sqlStateOf(error) ?? '') || isReadOnly(error)
}

/** Whether the server is read-only. */
export function isReadOnly(error: unknown): error is Error {
  return sqlStateOf(error) === '25006'
}

/**
 * The server error behind a Prisma error. Prisma's own codes are as long as SQLSTATEs and would be mistaken for them, so an error with one is
 * wrapped.
 */
export function serverError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const cause = adapterCause(error)
  if (cause !== undefined) {
    return Object.assign(new Error(cause.originalMessage ?? error.message, { cause: error }), { code: cause.originalCode })
  }
  return prismaCode(error) === undefined ? error : new Error(error.message, { cause: error })
}

/** Like the dialect's, for errors of Prisma and their wrappers. */
export function isPrismaConflict(error: unknown): boolean {
  for (const cause of causesOf(error)) {
    const code = prismaCode(cause)
    if (code === 'P2034') return true
    const state = adapterCause(cause)?.originalCode ?? (code === undefined ? sqlStateOf(cause) : undefined)
    if (state !== undefined) return state === '40001' || state === '40P01' // serialization failure, deadlock
  }
  return false
}
