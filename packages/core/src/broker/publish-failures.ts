import { AckordError, describeValue } from '../errors.ts'
import { redactDestination } from '../ports/redact.ts'
import type { PublishFailure } from './publisher.ts'

/** This message failed, and may succeed when it is tried again. A relay counts an attempt. */
export function recordFailure(text: string, cause?: unknown): PublishFailure {
  return { ok: false, error: publishFailed(text, cause) }
}

/** The message itself is at fault, and would fail again: it is too large, or cannot be written. A relay parks it. */
export function permanentFailure(text: string, cause?: unknown): PublishFailure {
  return { ok: false, error: publishFailed(text, cause, { retryable: false }), permanent: true }
}

/** The destination is at fault, not the message: it is down, missing, or access is denied. A relay pauses the destination and counts no attempt. */
export function destinationFailure(
  text: string,
  cause?: unknown,
  options: { readonly retryAfter?: number | undefined } = {},
): PublishFailure {
  return { ok: false, error: publishFailed(text, cause), scope: 'destination', ...pauseOf(options) }
}

/** The caller's time limit was over before the broker had confirmed the message. `broker` is a name such as 'RabbitMQ'. */
export function abortedFailure(broker: string, cause: unknown): PublishFailure {
  return destinationFailure(`Publishing was aborted before ${broker} had confirmed the message.`, cause)
}

/** The data of a message is not a `Uint8Array`. */
export function wrongDataFailure(broker: string, destination: string, data: unknown): PublishFailure {
  const text = `${broker} carries bytes; a message to '${redactDestination(destination)}' has ${describeValue(data)}. Marshal it first.`
  return { ok: false, error: new AckordError('ACKORD_WRONG_DATA', text, { retryable: false }), permanent: true }
}

/** The message cannot be written in the broker's format, for instance because an attribute is an invalid date. `target` is shown as it is. */
export function unwritableFailure(broker: string, target: string, cause: unknown): PublishFailure {
  return permanentFailure(`A message to ${target} cannot be written for ${broker}; the cause says why.`, cause)
}

/** A routing function failed, or returned something unusable. `route` is what it returns, such as 'topic'. */
export function unroutedFailure(route: string, destination: string, cause: unknown): PublishFailure {
  return recordFailure(`Could not determine the ${route} of a message to '${redactDestination(destination)}'.`, cause)
}

/** An earlier message of the call failed because of the destination, so this one was not sent. */
export function notTriedFailure(target: string, earlier: PublishFailure): PublishFailure {
  const text = `An earlier message to ${target} failed because of the destination, so this one was not sent.`
  return destinationFailure(text, earlier.error, earlier)
}

/** An earlier message with the same key failed, so this one was not sent: it would be out of order. */
export function heldBackFailure(target: string, earlier: PublishFailure): PublishFailure {
  const text = `An earlier message with the same partitionkey was not accepted by ${target}, so this one was not sent.`
  return { ok: false, error: publishFailed(text, earlier.error), tried: false, ...pauseOf(earlier) }
}

function publishFailed(text: string, cause: unknown, options: { readonly retryable?: boolean } = {}): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', text, cause === undefined ? options : { ...options, cause })
}

function pauseOf({ retryAfter }: { readonly retryAfter?: number | undefined }): { readonly retryAfter?: number } {
  return retryAfter === undefined ? {} : { retryAfter }
}
