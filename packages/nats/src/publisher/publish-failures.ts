import type { PublishFailure } from '@ackord/core'
import { destinationFailure, permanentFailure, recordFailure } from '@ackord/core/broker'
import { isNoResponders, isNotAllowed, isTooLarge } from '../client.ts'
import { JetStreamError, messageTooLarge, wrongStream } from '../jetstream-api.ts'

/** The result of a message whose request failed. It may be in the stream unless NATS refused it. */
export function requestFailed(subject: string, cause: unknown, unroutable: 'destination' | 'record'): PublishFailure {
  if (isNoResponders(cause)) {
    const text = `No stream has subject '${subject}'. Create one with that subject; if there is one, JetStream is not available at the moment.`
    return unroutable === 'destination' ? destinationFailure(text, cause) : { ...recordFailure(text, cause), scope: unroutable }
  }
  if (isNotAllowed(cause)) return destinationFailure(`The user is not allowed to publish to '${subject}'.`, cause)
  if (isTooLarge(cause)) return tooLarge(subject, 'NATS refused it because of its size.', cause)
  if (cause instanceof JetStreamError) return refused(subject, cause)
  const text = `NATS did not confirm a message to '${subject}': there was no answer in time, or the connection was lost. It may be in the stream.`
  return destinationFailure(text, cause)
}

/** JetStream received the message and did not store it: the stream is full, sealed, or without a quorum. */
function refused(subject: string, cause: JetStreamError): PublishFailure {
  if (cause.code === messageTooLarge) return tooLarge(subject, "It is larger than the stream's max_msg_size.", cause)
  const text =
    cause.code === wrongStream
      ? `Subject '${subject}' belongs to another stream than expectedStream.`
      : `JetStream did not store a message to '${subject}': ${cause.message}.`
  return destinationFailure(text, cause)
}

export function tooLarge(subject: string, reason: string, cause?: unknown): PublishFailure {
  return permanentFailure(`A message to '${subject}' is too large. ${reason}`, cause)
}

/** The answer is not one of a stream. */
export function unknownAnswer(subject: string, cause: unknown): PublishFailure {
  const text = `A message to '${subject}' was answered, but not by a stream: another subscriber listens to that subject.`
  return destinationFailure(text, cause)
}

/** The connection was lost while the message was in flight: NATS may or may not have it. */
export function connectionLost(subject: string): PublishFailure {
  return destinationFailure(`The connection to NATS was lost before it had confirmed a message to '${subject}'. It may be in the stream.`)
}

export function notConnected(over: { readonly cause: unknown } | undefined): PublishFailure {
  const text =
    over === undefined
      ? 'There is no connection to NATS.'
      : 'The connection to NATS is closed and will not be restored. Connect with { maxReconnectAttempts: -1 }, and close the connection after the publisher.'
  return destinationFailure(text, over?.cause)
}
