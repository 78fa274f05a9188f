import { AckordError } from '@ackord/core'
import { messageOf } from '@ackord/core/internal'
import { isNotAllowed } from '../client.ts'
import { consumerNotFound, JetStreamError, streamNotFound } from '../jetstream-api.ts'
import { DeclarationMismatch } from '../topology.ts'

/** The consumer exists, but messages cannot be pulled from it and acked one by one. */
export class UnfitConsumer extends Error {
  static {
    this.prototype.name = 'UnfitConsumer'
  }
}

/**
 * Whether an error while opening ends the source. At first a missing stream or consumer does, because it is most likely a mistake in the configuration; later on it
 * may come back: it is being moved, or created again.
 */
export function endsSource(error: unknown, options: { readonly wasPrepared: boolean }): boolean {
  if (isNotAllowed(error) || error instanceof DeclarationMismatch || error instanceof UnfitConsumer) return true
  if (!(error instanceof JetStreamError)) return false
  const isMissing = error.code === streamNotFound || error.code === consumerNotFound
  // Other error codes are about the request, except those that say that JetStream is not available.
  return isMissing ? !options.wasPrepared : error.code < 500 || (error.code >= 10_000 && !unavailable.has(error.code))
}

/** JetStream's codes for a cluster without a leader, missing storage or memory, and the like. */
const unavailable: ReadonlySet<number> = new Set([10_002, 10_008, 10_009, 10_010, 10_023, 10_028, 10_047, 10_077, 10_118])

export function openingFailed(stream: string, consumer: string, cause: unknown): AckordError {
  const text = `Consumer '${consumer}' of stream '${stream}' cannot be read: ${advice(cause)}`
  return new AckordError('ACKORD_SOURCE_FAILED', text, { cause })
}

export function connectionOver(stream: string, consumer: string, cause: unknown): AckordError {
  const text = `Consumer '${consumer}' of stream '${stream}' cannot be read: the connection is closed and will not be restored. Connect with { maxReconnectAttempts: -1 }, and close the connection after the source.`
  return new AckordError('ACKORD_SOURCE_FAILED', text, cause === undefined ? {} : { cause })
}

function advice(cause: unknown): string {
  if (isNotAllowed(cause)) {
    return 'the user is not allowed to. Grant it the permission to publish to $JS.API.CONSUMER.> and $JS.ACK.>, to subscribe to its inbox, and to publish to $JS.API.STREAM.> if the source has declare.stream.'
  }
  if (cause instanceof JetStreamError && cause.code === streamNotFound) {
    return "the stream does not exist. Create it, or have the source do so with declare: { stream: { subjects: ['…'] } }."
  }
  if (cause instanceof JetStreamError && cause.code === consumerNotFound) {
    return 'the consumer does not exist. Create it, or have the source do so with declare: {}.'
  }
  return `${cause instanceof Error ? messageOf(cause) : String(cause)}.`
}
