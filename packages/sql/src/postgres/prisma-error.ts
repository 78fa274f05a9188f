import { adapterCause, prismaCode } from '../orm/prisma-error.ts'
import { sqlStateOf } from './sql-state.ts'

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
