import { causesOf } from '@ackord/core/internal'
import { TransactionEndedError } from '../errors.ts'
import { adapterCause, prismaCode } from '../orm/prisma.ts'

/** The error number of MySQL and MariaDB; `undefined` for errors that did not come from the server. */
export function errorNumberOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') return undefined
  const { errno } = error
  // Numbers from 2000 on belong to clients, from 45000 on to the connector.
  return (errno >= 1000 && errno < 2000) || (errno >= 3000 && errno < 45_000) ? errno : undefined
}

/** The number of the error or of its cause: middleware and handlers wrap errors. */
export function deepErrorNumberOf(error: unknown): number | undefined {
  for (const cause of causesOf(error)) {
    const number = errorNumberOf(cause)
    if (number !== undefined) return number
  }
  return undefined
}

/** Record changed since last read, deadlock, rolled back during COMMIT. */
const conflicts = new Set([1020, 1213, 3101])

/** Whether the transaction lost a conflict with another one. */
export function isConflict(error: unknown): boolean {
  return conflicts.has(deepErrorNumberOf(error) ?? 0)
}

/** Whether the server may have rolled the transaction back: a conflict, a lock wait timeout (depending on server settings), lock table full. */
export function mayRollBack(error: unknown): boolean {
  const number = errorNumberOf(error) ?? 0
  return conflicts.has(number) || number === 1205 || number === 1206
}

/** Lock wait timeout, deadlock, read-only (two), rejected by group replication (two). */
const refusals = new Set([1205, 1213, 1290, 1836, 3100, 3101])

/** Whether the answer to COMMIT means that nothing was committed. Only known errors count: after any other answer it may have been committed. */
export function refusedCommit(error: unknown): boolean {
  return refusals.has(errorNumberOf(error) ?? 0)
}

/** Disk full, table full (InnoDB), read-only. */
const fullOrReadOnly = new Set([1021, 1114, 1836])

/** Whether the server currently refuses writes. Not 1041, out of memory: a single statement may cause that. */
export function refusesWrites(error: unknown): boolean {
  for (const cause of causesOf(error)) {
    const number = errorNumberOf(cause)
    if (number !== undefined) return fullOrReadOnly.has(number) || isReadOnlyOption(number, cause)
  }
  return false
}

/** A server option prevents the write; only the text says which one. */
function isReadOnlyOption(number: number, error: unknown): boolean {
  return number === 1290 && error instanceof Error && /read[-_]only/i.test(error.message)
}

/** Shutdown, packet too large, read-only, connection killed (two), idle for too long. */
const endings = new Set([1053, 1153, 1836, 1927, 3169, 4031])

/** Killed, timed out (two): these affect only the statement. `mariadb` reports them as fatal, because they share the state of a killed connection. */
const interruptions = new Set([1317, 1969, 3024])

/**
 * Whether the connection is lost, is being closed by the server, or has become read-only: after a failover a new connection reaches the writable
 * server. The open transaction is rolled back.
 */
export function endsConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const number = errorNumberOf(error) ?? 0
  if (interruptions.has(number)) return false
  return ('fatal' in error && error.fatal === true) || isReadOnlyOption(number, error) || endings.has(number)
}

/** The server error behind a Prisma error, with its number. */
export function serverError(error: unknown): unknown {
  const cause = adapterCause(error)
  if (cause === undefined) return error
  return Object.assign(new Error(cause.originalMessage, { cause: error }), { errno: Number(cause.originalCode) })
}

/** Like the dialect's, for errors of Prisma and their wrappers. */
export function isPrismaConflict(error: unknown): boolean {
  for (const cause of causesOf(error)) {
    if (prismaCode(cause) === 'P2034' || isConflict(serverError(cause))) return true
  }
  return false
}

/** The reason why a transaction can no longer be committed. */
export function endedByStatement(cause?: unknown): TransactionEndedError {
  return new TransactionEndedError({ cause, detail: ', as DDL does on MySQL' })
}
