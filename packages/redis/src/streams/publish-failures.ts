import { AckordError, type PublishFailure } from '@ackord/core'
import { describeValue } from '@ackord/core/internal'
import { says } from './error-text.ts'

/** What the server, the client or the deadline said of an XADD. */
export function notAdded(stream: string, cause: unknown): PublishFailure {
  if (says(cause, 'too large', 'invalid bulk length', 'string exceeds maximum')) {
    return { ok: false, error: failed(`A message is too large for stream '${stream}'.`, { cause, retryable: false }), permanent: true }
  }
  if (says(cause, 'WRONGTYPE')) {
    const text = `The key '${stream}' is not a stream. Publish under another name, or remove what is there.`
    return { ok: false, error: failed(text, { cause, retryable: false }), permanent: true, scope: 'destination' }
  }
  return {
    ok: false,
    error: failed(`Redis did not take a message to stream '${stream}': ${reasonOf(cause)}`, { cause }),
    scope: 'destination',
  }
}

function reasonOf(cause: unknown): string {
  if (says(cause, 'OOM')) return 'it is out of memory.'
  if (says(cause, 'READONLY')) return 'it is a replica; the clients have not found the new master yet.'
  if (says(cause, 'LOADING')) return 'it is loading its data.'
  if (says(cause, 'CLUSTERDOWN', 'TRYAGAIN')) return 'the cluster does not serve that slot at the moment.'
  if (says(cause, 'NOREPLICAS')) return 'it has fewer replicas than min-replicas-to-write.'
  if (says(cause, 'NOPERM', 'NOAUTH', 'WRONGPASS')) return 'the user is not allowed to.'
  return 'the cause says why. It may have it all the same.'
}

/** An earlier message of its key was not added: behind it, it would be out of order. */
export function heldBack(stream: string): PublishFailure {
  const text = `An earlier message with the same partitionkey was not added to stream '${stream}', so this one was not tried.`
  return { ok: false, error: failed(text), scope: 'destination' }
}

export function aborted(cause: unknown): PublishFailure {
  return { ok: false, error: failed('Publishing was aborted before Redis had confirmed the message.', { cause }), scope: 'destination' }
}

export function wrongData(destination: string, data: unknown): PublishFailure {
  const text = `Redis carries bytes; a message to '${destination}' has ${describeValue(data)}. Marshal it first.`
  return { ok: false, error: new AckordError('ACKORD_WRONG_DATA', text, { retryable: false }), permanent: true }
}

export function unwritable(destination: string, cause: unknown): PublishFailure {
  const text = `A message to '${destination}' cannot be written as an entry of a stream; the cause says why.`
  return { ok: false, error: failed(text, { cause, retryable: false }), permanent: true }
}

export function tooLarge(stream: string, size: number, maxSize: number): PublishFailure {
  const text = `A message of ${size} bytes to stream '${stream}' is larger than maxSize, ${maxSize}.`
  return { ok: false, error: failed(text, { retryable: false }), permanent: true }
}

function failed(text: string, options: { readonly cause?: unknown; readonly retryable?: boolean } = {}): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', text, options)
}
