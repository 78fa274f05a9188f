import { sqlStateOf } from './sql-state.ts'

/** What a driver adapter tells of an error of the server. */
interface AdapterCause {
  readonly originalCode: string
  readonly originalMessage?: string | undefined
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

/** Prisma puts it under an error of its own; at COMMIT the adapter's comes alone. */
function adapterCause(error: Error): AdapterCause | undefined {
  const meta = 'meta' in error ? (error.meta as { readonly driverAdapterError?: unknown } | undefined) : undefined
  const adapterError = meta?.driverAdapterError ?? (error.name === 'DriverAdapterError' ? error : undefined)
  const cause = (adapterError as { readonly cause?: Partial<AdapterCause> } | undefined)?.cause
  return typeof cause?.originalCode === 'string' ? (cause as AdapterCause) : undefined
}

function prismaCode(error: Error): string | undefined {
  return 'code' in error && typeof error.code === 'string' && /^P\d{4}$/.test(error.code) && 'clientVersion' in error
    ? error.code
    : undefined
}
