import { AckordError } from '../errors.ts'
import { logFields } from '../message/log-fields.ts'
import { ackingOf, type RawMessage } from '../message/message.ts'
import type { Logger } from '../ports/observability.ts'

/** Settling a delivery that the broker has taken back, for instance with a lost connection. `text` is a clause such as 'The channel was lost before the message was settled'. */
export function leaseLostError(text: string, cause?: unknown): AckordError {
  return new AckordError('ACKORD_LEASE_LOST', `${text}; ${redelivered}`, cause === undefined ? {} : { cause })
}

/** Settling a delivery of a source that was disposed. `message` names it, such as 'the message' or `entry 5-0 of stream 'orders'`. */
export function sourceDisposedError(message: string, cause?: unknown): AckordError {
  const text = `The source was disposed before ${message} was settled; ${redelivered} Settle what was yielded before disposing the source.`
  return new AckordError('ACKORD_SHUTDOWN', text, cause === undefined ? {} : { cause })
}

const redelivered = 'it is delivered again, and the late verdict has no effect.'

/**
 * Rejects a message whose content cannot be read, because no handler will see it. `message` holds as much of it as can be read, `name` is how a sentence about it begins.
 * If the dead letter does not accept it, it is delivered again, and rejected again.
 */
export function rejectUnreadable(
  message: RawMessage,
  name: string,
  cause: unknown,
  log: { readonly logger: Logger; readonly fields: Readonly<Record<string, unknown>> },
): void {
  const error = new AckordError('ACKORD_INVALID_MESSAGE', `${name} cannot be read.`, { retryable: false, cause })
  const deadLetter = ackingOf(message)?.deadLetter
  log.logger.error(
    { err: error, ...logFields(message), ...(deadLetter && { deadLetter }), ...log.fields },
    'A message cannot be read and is rejected.',
  )
  void message.reject(error)
}
