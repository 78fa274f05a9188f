import { TransactionEndedError } from '../errors.ts'
import { adapterCause, prismaCode } from '../orm/prisma.ts'

/** The number by which MySQL and MariaDB tell errors apart; `undefined` for errors that did not come from the server. */
export function errorNumberOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') return undefined
  const { errno } = error
  // From 2000 on they are those of clients, and from 45000 on those of the connector.
  return (errno >= 1000 && errno < 2000) || (errno >= 3000 && errno < 45_000) ? errno : undefined
}

/** The number of the error, or of the one that caused it: middleware and handlers wrap what they get. */
export function deepErrorNumberOf(error: unknown): number | undefined {
  let current = error
  for (let depth = 0; depth < 10 && current instanceof Error; depth += 1) {
    const number = errorNumberOf(current)
    if (number !== undefined) return number
    current = current.cause
  }
  return undefined
}

/** Record changed since last read, deadlock, rolled back during COMMIT. */
const conflicts = new Set([1020, 1213, 3101])

/** Whether the transaction lost against another one. */
export function isConflict(error: unknown): boolean {
  return conflicts.has(deepErrorNumberOf(error) ?? 0)
}

/** Whether the server may have rolled the transaction back: a conflict, a lock wait time-out (as the server is set), no room for locks. */
export function mayRollBack(error: unknown): boolean {
  const number = errorNumberOf(error) ?? 0
  return conflicts.has(number) || number === 1205 || number === 1206
}

/** Lock wait time-out, deadlock, read-only (two), refused by the group (two). */
const refusals = new Set([1205, 1213, 1290, 1836, 3100, 3101])

/** Whether the answer to COMMIT means that nothing was committed. Only what is known to: whatever else is said, it may have been. */
export function refusedCommit(error: unknown): boolean {
  return refusals.has(errorNumberOf(error) ?? 0)
}

/** Disk full, table full (as InnoDB says it), read-only. */
const fullOrReadOnly = new Set([1021, 1114, 1836])

/** Whether the server takes no writes at the moment. Not 1041, out of memory: that may be the fault of a single statement. */
export function refusesWrites(error: unknown): boolean {
  let current = error
  for (let depth = 0; depth < 10 && current instanceof Error; depth += 1) {
    const number = errorNumberOf(current)
    if (number !== undefined) return fullOrReadOnly.has(number) || isReadOnlyOption(number, current)
    current = current.cause
  }
  return false
}

/** An option of the server prevents it; which one is in the text only. */
function isReadOnlyOption(number: number, error: Error): boolean {
  return number === 1290 && /read[-_]only/i.test(error.message)
}

/** Shutdown, packet too large, read-only, connection killed (two), idle for too long. */
const endings = new Set([1053, 1153, 1836, 1927, 3169, 4031])

/** Killed, too slow (two): the statement alone. `mariadb` calls them fatal, as they have the state of a connection that was killed. */
const interruptions = new Set([1317, 1969, 3024])

/**
 * Whether the connection is lost, or the server ends it, or it only reads any more: after a failover the next one finds the server that
 * writes. What was open on it is rolled back.
 */
export function endsConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const number = errorNumberOf(error) ?? 0
  if (interruptions.has(number)) return false
  return ('fatal' in error && error.fatal === true) || isReadOnlyOption(number, error) || endings.has(number)
}

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

/** The reason why a transaction cannot be committed any more. */
export function endedByStatement(cause?: unknown): TransactionEndedError {
  return new TransactionEndedError({ cause, detail: ', as DDL does on MySQL' })
}
