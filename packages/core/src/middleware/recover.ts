import { toError } from '../errors.ts'
import type { Middleware } from './middleware.ts'

/** Turns whatever is thrown inside of it, also synchronously and also what is not an error, into a rejection with an error. Errors stay the objects they are. */
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
