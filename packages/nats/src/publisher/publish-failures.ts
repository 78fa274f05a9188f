import { AckordError, type PublishFailure } from '@ackord/core'
import { describeValue, redactDestination } from '@ackord/core/internal'
import { isNoResponders, isNotAllowed, isTooLarge } from '../client.ts'
import { JetStreamError, messageTooLarge, wrongStream } from '../jetstream-api.ts'

/** What became of a message whose request failed. It may be in the stream unless NATS refused it. */
export function requestFailed(subject: string, cause: unknown, unroutable: 'destination' | 'record'): PublishFailure {
  if (isNoResponders(cause)) {
    const text = `No stream takes subject '${subject}'. Create one with that subject; if there is one, JetStream is not available at the moment.`
    return { ok: false, error: failed(text, { cause }), scope: unroutable }
  }
  if (isNotAllowed(cause)) {
    return { ok: false, error: failed(`The user is not allowed to publish to '${subject}'.`, { cause }), scope: 'destination' }
  }
  if (isTooLarge(cause)) return tooLarge(subject, 'NATS refused it for its size.', cause)
  if (cause instanceof JetStreamError) return refused(subject, cause)
  const text = `NATS did not confirm a message to '${subject}': there was no answer in time, or the connection was lost. It may be in the stream.`
  return { ok: false, error: failed(text, { cause }), scope: 'destination' }
}

/** JetStream has the message, and did not store it: the stream is full, sealed, or without a quorum. */
function refused(subject: string, cause: JetStreamError): PublishFailure {
  if (cause.code === messageTooLarge) return tooLarge(subject, "It is larger than the stream's max_msg_size.", cause)
  const text =
    cause.code === wrongStream
      ? `Subject '${subject}' belongs to another stream than expectedStream says.`
      : `JetStream did not store a message to '${subject}': ${cause.message}.`
  return { ok: false, error: failed(text, { cause }), scope: 'destination' }
}

export function tooLarge(subject: string, reason: string, cause?: unknown): PublishFailure {
  const options = cause === undefined ? {} : { cause }
  return {
    ok: false,
    error: failed(`A message to '${subject}' is too large. ${reason}`, { ...options, retryable: false }),
    permanent: true,
  }
}

/** Somebody answered who is no stream. */
export function unknownAnswer(subject: string, cause: unknown): PublishFailure {
  const text = `A message to '${subject}' was answered, but not by a stream: something else listens to that subject.`
  return { ok: false, error: failed(text, { cause }), scope: 'destination' }
}

/** The connection was lost while the message was on its way: NATS may or may not have it. */
export function connectionLost(subject: string): PublishFailure {
  const text = `The connection to NATS was lost before it had confirmed a message to '${subject}'. It may be in the stream.`
  return { ok: false, error: failed(text), scope: 'destination' }
}

export function notConnected(over: { readonly cause: unknown } | undefined): PublishFailure {
  const text =
    over === undefined
      ? 'There is no connection to NATS.'
      : 'The connection to NATS is closed and will not come back. Connect with { maxReconnectAttempts: -1 }, and close the connection after the publisher.'
  return { ok: false, error: failed(text, over?.cause === undefined ? {} : { cause: over.cause }), scope: 'destination' }
}

/** It was not confirmed when the caller's time was over, which is no fault of the message. */
export function aborted(cause: unknown): PublishFailure {
  return { ok: false, error: failed('Publishing was aborted before NATS had confirmed the message.', { cause }), scope: 'destination' }
}

export function wrongData(destination: string, data: unknown): PublishFailure {
  const text = `NATS carries bytes; a message to '${redactDestination(destination)}' has ${describeValue(data)}. Marshal it first.`
  return { ok: false, error: new AckordError('ACKORD_WRONG_DATA', text, { retryable: false }), permanent: true }
}

/** An attribute is an invalid date, or the like. */
export function unwritable(destination: string, cause: unknown): PublishFailure {
  const text = `A message to '${redactDestination(destination)}' cannot be written for NATS; the cause says why.`
  return { ok: false, error: failed(text, { cause, retryable: false }), permanent: true }
}

/** The option `subject` failed, or its answer makes no sense. */
export function unrouted(destination: string, cause: unknown): PublishFailure {
  return { ok: false, error: failed(`The subject of a message to '${redactDestination(destination)}' could not be told.`, { cause }) }
}

function failed(text: string, options: { readonly cause?: unknown; readonly retryable?: boolean } = {}): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', text, options)
}
