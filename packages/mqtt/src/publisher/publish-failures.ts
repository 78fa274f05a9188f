import type { PublishFailure } from '@ackord/core'
import { destinationFailure, permanentFailure, recordFailure } from '@ackord/core/broker'
import { reasonCode, reasonCodes } from '../client.ts'

export type Unroutable = 'destination' | 'record'

/** The broker accepted the message and had no subscription for it: it is gone. */
export function noSubscribers(topic: string, unroutable: Unroutable): PublishFailure {
  const text = `Topic '${topic}' has no subscription, so the broker dropped a message to it. Let the consumers subscribe first, or set mandatory: false if the message may be dropped.`
  return unroutable === 'destination' ? destinationFailure(text) : { ...recordFailure(text), scope: unroutable }
}

/** The result of a message that the client or the broker did not accept. Without a reason code of the broker, the message may have been delivered. */
export function publishFailed(topic: string, cause: unknown): PublishFailure {
  const code = reasonCode(cause)
  switch (code) {
    case undefined:
      return connectionLost(topic, cause)
    case reasonCodes.notAuthorized:
      return destinationFailure(`The user is not allowed to publish to '${topic}'.`, cause)
    case reasonCodes.topicNameInvalid:
      return destinationFailure(`The broker does not accept '${topic}' as a topic.`, cause)
    case reasonCodes.quotaExceeded:
      return destinationFailure(`The broker did not accept a message to '${topic}': a quota of the broker is exceeded.`, cause)
    case reasonCodes.packetTooLarge:
      return tooLarge(topic, 'The broker refused it because of its size.', cause)
    case reasonCodes.payloadFormatInvalid:
      return permanentFailure(`The broker refused a message to '${topic}' because of its payload.`, cause)
    case reasonCodes.qosNotSupported:
      return destinationFailure(`The broker does not support the QoS of a message to '${topic}'. Set qos: 1.`, cause)
    default:
      // For instance 0x80, an unspecified error, which may be about this message only.
      return recordFailure(`The broker did not accept a message to '${topic}': reason code 0x${code.toString(16)}.`, cause)
  }
}

export function tooLarge(topic: string, reason: string, cause?: unknown): PublishFailure {
  return permanentFailure(`A message to '${topic}' is too large. ${reason}`, cause)
}

/** The connection was lost while the message was in flight: the broker may or may not have it. */
export function connectionLost(topic: string, cause?: unknown): PublishFailure {
  const text = `The connection to the MQTT broker was lost before it had confirmed a message to '${topic}'. It may have been delivered.`
  return destinationFailure(text, cause)
}

export function notConnected(over: { readonly cause: unknown } | undefined): PublishFailure {
  if (over === undefined) return destinationFailure('There is no connection to the MQTT broker.')
  if (over.cause === undefined) {
    const text =
      'The client is closed and will not connect again. Connect without reconnectPeriod: 0, and end the client after the publisher.'
    return destinationFailure(text)
  }
  const text =
    'The MQTT broker refused the connection, and the client does not try again. Check user and password, or connect with { reconnectOnConnackError: true }.'
  return destinationFailure(text, over.cause)
}

/** The broker would end the connection. */
export function qosTooHigh(qos: number, maximum: number): PublishFailure {
  const advice = maximum === 1 ? ' Set qos: 1.' : ' It confirms no messages.'
  return destinationFailure(`The MQTT broker supports QoS ${maximum} at most, and the publisher has QoS ${qos}.${advice}`)
}

/** The broker would drop a message whose packet identifier an earlier process used for one that it has not finished, and confirm it. */
export function sessionResumed(): PublishFailure {
  return destinationFailure(
    'The MQTT broker has a session of an earlier client with this client id, whose unfinished messages are unknown. With qos: 2, each process needs a client id of its own: leave it out, and the client generates one.',
  )
}
