import { AckordError } from '@ackord/core'

/** Says what of a message has no form in HTTP. */
export function unwritable(text: string, cause?: unknown): AckordError {
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text, { retryable: false, ...(cause === undefined ? {} : { cause }) })
}
