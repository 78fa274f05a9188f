import { AckordError } from '@ackord/core'
import { reasonCode, reasonCodes } from '../client.ts'

/** The broker granted another QoS than 1: messages would not be acknowledged. */
export class LowQos extends Error {
  static {
    this.prototype.name = 'LowQos'
  }
}

/** Whether an error while subscribing ends the source, because no further attempt can change it. */
export function endsSource(error: unknown): boolean {
  return error instanceof LowQos || advice.has(reasonCode(error) ?? -1)
}

export function subscribingFailed(filter: string, cause: unknown): AckordError {
  const text = cause instanceof LowQos ? cause.message : (advice.get(reasonCode(cause) ?? -1) ?? 'the cause says why.')
  return new AckordError('ACKORD_SOURCE_FAILED', `'${filter}' cannot be subscribed to: ${text}`, { cause })
}

export function connectionOver(filter: string, cause: unknown): AckordError {
  const text =
    cause === undefined
      ? 'the client is closed and will not connect again. Connect without reconnectPeriod: 0, and end the client after the source.'
      : 'the broker refused the connection, and the client does not try again. Check user and password, or connect with { reconnectOnConnackError: true }.'
  return new AckordError('ACKORD_SOURCE_FAILED', `'${filter}' cannot be read: ${text}`, cause === undefined ? {} : { cause })
}

const advice = new Map<number, string>([
  [reasonCodes.notAuthorized, 'the user is not allowed to. Grant it the permission to subscribe to the topic.'],
  [reasonCodes.topicFilterInvalid, 'the broker does not accept the topic filter.'],
  [reasonCodes.sharedSubscriptionsNotSupported, 'the broker does not support shared subscriptions, which a source needs.'],
  [reasonCodes.wildcardSubscriptionsNotSupported, 'the broker does not support wildcards in topic filters.'],
])
