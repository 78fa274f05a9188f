/** The client's error that this one is, or was caused by. By its name: an application may have two copies of the client. */
function hasName(error: unknown, name: string): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (cause.name === name) return true
  return false
}

/** Nobody listens to the subject: no stream has it, or JetStream is not there. */
export function isNoResponders(error: unknown): boolean {
  return hasName(error, 'NoResponders') || hasName(error, 'NoRespondersError')
}

export function isNotAllowed(error: unknown): boolean {
  return hasName(error, 'PermissionViolationError') || hasName(error, 'AuthorizationError')
}

/** The client counts the bytes itself. */
export function isTooLarge(error: unknown): boolean {
  return error instanceof Error && error.message.includes('max_payload')
}
