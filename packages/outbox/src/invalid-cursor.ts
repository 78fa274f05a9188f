import { InvalidOptionError } from '@ackord/core'

/** For stores: what `list()` throws at an `after` that is not the `next` of an earlier page. */
export function invalidCursor(after: string): InvalidOptionError {
  return new InvalidOptionError('after', `must be the cursor of an earlier page, or left out; it is ${JSON.stringify(after)}.`)
}
