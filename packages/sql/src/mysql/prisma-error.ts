import { adapterCause, prismaCode } from '../orm/prisma-error.ts'
import { isConflict } from './mysql-error.ts'

/** The error of the server behind one of Prisma, with its number. */
export function serverError(error: unknown): unknown {
  const cause = error instanceof Error ? adapterCause(error) : undefined
  if (cause === undefined) return error
  return Object.assign(new Error(cause.originalMessage, { cause: error }), { errno: Number(cause.originalCode) })
}

/** As the dialect has it, for errors of Prisma and what handlers wrap around them. */
export function isPrismaConflict(error: unknown): boolean {
  let current = error
  for (let depth = 0; depth < 10 && current instanceof Error; depth += 1) {
    if (prismaCode(current) === 'P2034' || isConflict(serverError(current))) return true
    current = current.cause
  }
  return false
}
