import type { PublishFailure } from '@ackord/core'
import { destinationFailure, permanentFailure, recordFailure } from '@ackord/core/broker'
import { type RabbitmqProperties, replyCode } from '../client.ts'

/** A message in RabbitMQ's format, with the exchange and routing key that it is published to. */
export interface Envelope {
  readonly exchange: string
  readonly routingKey: string
  readonly body: Buffer
  readonly properties: RabbitmqProperties
}

/** RabbitMQ accepted the message and had no queue for it: it is gone. */
export function unroutable({ exchange, routingKey }: Envelope, scope: 'destination' | 'record'): PublishFailure {
  const text =
    exchange === ''
      ? `Queue '${routingKey}' does not exist. Create it before publishing to it.`
      : `Exchange '${exchange}' has no queue for routing key '${routingKey}'. Bind a queue, or set mandatory: false if the message may be dropped.`
  return scope === 'destination' ? destinationFailure(text) : { ...recordFailure(text), scope }
}

/** The queue is full and refuses messages (`x-overflow: reject-publish`), or its replicas could not store the message. */
export function nacked(envelope: Envelope): PublishFailure {
  return destinationFailure(`RabbitMQ did not accept a message to ${targetOf(envelope)}: the queue is full, or could not store it.`)
}

/** The channel was closed before RabbitMQ had confirmed: it may or may not have the message. */
export function unconfirmed(envelope: Envelope, cause: unknown): PublishFailure {
  const { exchange, body } = envelope
  const code = replyCode(cause)
  if (code === 406 && refusedSize(cause) === body.byteLength) {
    return permanentFailure(`A message of ${body.byteLength} bytes is larger than RabbitMQ's max_message_size.`, cause)
  }
  const text =
    code === 404
      ? `Exchange '${exchange}' does not exist. Create it before publishing to it.`
      : code === 403
        ? `The user is not allowed to publish to ${targetOf(envelope)}.`
        : `The channel to RabbitMQ was lost before it had confirmed a message to ${targetOf(envelope)}.`
  return destinationFailure(text, cause)
}

/** In error messages. */
export function targetOf({ exchange, routingKey }: Envelope): string {
  return exchange === '' ? `queue '${routingKey}'` : `exchange '${exchange}'`
}

/** The size of the message that RabbitMQ refused: the channel that it closes had other messages too. */
function refusedSize(error: unknown): number | undefined {
  const size = error instanceof Error ? /message size (\d+) is larger than/.exec(error.message)?.[1] : undefined
  return size === undefined ? undefined : Number(size)
}
