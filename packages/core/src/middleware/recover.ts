import { toError } from '../errors.ts'
import type { Middleware } from './middleware.ts'

/**
 * Converts everything thrown inside of it, also synchronously and also values that are not errors, to a rejection with an error. Errors stay the same
 * objects.
 */
export function recoverMiddleware(): Middleware {
  return (next) =>
    async function recover(message, context) {
      try {
        return await next(message, context)
      } catch (thrown) {
        throw toError(thrown)
      }
    }
}
