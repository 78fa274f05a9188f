import { RejectError, toError } from '@ackord/core'

/** The status codes of errors with which guards and pipes refuse a message for good: bad request, unauthorized, forbidden, unprocessable. */
const refusals: readonly unknown[] = [400, 401, 403, 422]

/** The error that a message fails with, for an error of its handler. */
export function verdictOf(error: unknown): Error {
  if (error instanceof Error && 'getStatus' in error && typeof error.getStatus === 'function' && refusals.includes(error.getStatus())) {
    return new RejectError(error.message, { cause: error })
  }
  return toError(error)
}
