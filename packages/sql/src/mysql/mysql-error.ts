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
  // An option of the server prevents it; which one is in the text only.
  const readOnly = number === 1290 && /read[-_]only/i.test(error.message)
  return ('fatal' in error && error.fatal === true) || readOnly || endings.has(number)
}
