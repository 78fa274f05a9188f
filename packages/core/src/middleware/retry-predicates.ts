import { InvalidOptionError } from '../errors.ts'

/** A value of an error's `code`, ours or a driver's (`'ECONNRESET'`, `'40001'`), or a class of errors. */
export type ErrorKind = string | (abstract new (...args: never[]) => Error)

/** For `shouldRetry`: only errors of these kinds, or caused by one. */
export function retryOn(...kinds: readonly ErrorKind[]): (error: unknown) => boolean {
  checkKinds('retryOn()', kinds)
  return (error) => isOfKind(error, kinds, new Set())
}

/** For `shouldRetry`: all errors but those of these kinds, or caused by one. */
export function retryExcept(...kinds: readonly ErrorKind[]): (error: unknown) => boolean {
  checkKinds('retryExcept()', kinds)
  return (error) => !isOfKind(error, kinds, new Set())
}

/** `seen` ends the walk where causes form a circle. */
function isOfKind(error: unknown, kinds: readonly ErrorKind[], seen: Set<object>): boolean {
  if (typeof error !== 'object' || error === null || seen.has(error)) return false
  seen.add(error)
  for (const kind of kinds) {
    if (typeof kind === 'string' ? 'code' in error && error.code === kind : error instanceof kind) return true
  }
  if (error instanceof AggregateError && error.errors.some((one) => isOfKind(one, kinds, seen))) return true
  return 'cause' in error && isOfKind(error.cause, kinds, seen)
}

function checkKinds(caller: string, kinds: readonly ErrorKind[]): void {
  // None could be read as "none" or as "all".
  if (kinds.length === 0) throw new InvalidOptionError(caller, 'needs at least one code or class of errors.')
  if (kinds.every((kind) => typeof kind === 'function' || (typeof kind === 'string' && kind !== ''))) return
  throw new InvalidOptionError(caller, 'takes codes (texts that are not empty) and classes of errors only.')
}
