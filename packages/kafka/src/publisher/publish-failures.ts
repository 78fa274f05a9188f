import { AckordError, type PublishFailure } from '@ackord/core'
import { describeValue, redactDestination } from '@ackord/core/internal'
import type { KafkaFault } from '../port.ts'

/** What the client said of a message that was sent alone. */
export function notSent(topic: string, size: number, fault: KafkaFault, cause: unknown): PublishFailure {
  if (fault === 'message') {
    const text = `Kafka does not take a message of ${size} bytes to topic '${topic}': it is too large (max.message.bytes), or of a form that the topic has no place for.`
    return { ok: false, error: failed(text, { cause, retryable: false }), permanent: true }
  }
  return {
    ok: false,
    error: failed(`A message to topic '${topic}' was not confirmed: ${reasonOf(fault)}`, { cause }),
    scope: 'destination',
  }
}

function reasonOf(fault: KafkaFault): string {
  if (fault === 'access') return 'the user is not allowed to, or could not log in.'
  if (fault === 'topic') return 'the topic does not exist. Create it before publishing to it.'
  return 'the cause says why. Kafka may have it all the same.'
}

export function aborted(cause: unknown): PublishFailure {
  return { ok: false, error: failed('Publishing was aborted before Kafka had confirmed the message.', { cause }), scope: 'destination' }
}

/** An earlier message of the call failed because of the destination. */
export function notTried(topic: string, cause: unknown): PublishFailure {
  const text = `An earlier message to topic '${topic}' was not confirmed, so this one was not sent.`
  return { ok: false, error: failed(text, { cause }), scope: 'destination' }
}

export function wrongData(destination: string, data: unknown): PublishFailure {
  const text = `Kafka carries bytes; a message to '${redactDestination(destination)}' has ${describeValue(data)}. Marshal it first.`
  return { ok: false, error: new AckordError('ACKORD_WRONG_DATA', text, { retryable: false }), permanent: true }
}

export function unwritable(topic: string, cause: unknown): PublishFailure {
  const text = `A message to topic '${topic}' cannot be written as a record of Kafka; the cause says why.`
  return { ok: false, error: failed(text, { cause, retryable: false }), permanent: true }
}

/** The option `route` failed, or its answer makes no sense. */
export function unrouted(destination: string, cause: unknown): PublishFailure {
  return { ok: false, error: failed(`The topic of a message to '${redactDestination(destination)}' could not be told.`, { cause }) }
}

function failed(text: string, options: { readonly cause?: unknown; readonly retryable?: boolean } = {}): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', text, options)
}
