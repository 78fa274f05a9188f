import { AckordError } from '@ackord/core'
import { replyCode } from './reply-code.ts'

/** AMQP's reply codes that are about the queue or our rights. */
const notAllowed = 403
const notFound = 404
const locked = 405
const mismatch = 406

/**
 * Whether an error while opening ends the source. At first all that RabbitMQ refuses does, because it is most likely a mistake in the set-up. Later on
 * a queue that is missing or locked may come back: it is being moved, or its node restarts.
 */
export function endsSource(error: unknown, options: { readonly before: boolean }): boolean {
  const code = replyCode(error)
  if (code === notAllowed || code === mismatch) return true
  return !options.before && (code === notFound || code === locked)
}

export function openingFailed(queue: string, cause: unknown): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', `Queue '${queue}' cannot be consumed: ${advice(cause)}`, { cause })
}

function advice(cause: unknown): string {
  switch (replyCode(cause)) {
    case notFound:
      return "it does not exist. Create it, or have the source do so with declare: { type: 'quorum' }."
    case notAllowed:
      return "the user is not allowed to. Give it the permission to read, and to configure if the source has 'declare'."
    case locked:
      return 'somebody else consumes it exclusively.'
    case mismatch:
      return "'declare' is not accepted: the queue exists with other properties, or an argument is wrong."
    default:
      return 'the connection is closed and will not come back. Connect with { recovery: true }, and close the connection after the source.'
  }
}
