import { AckordError, type PublishFailure } from '@ackord/core'
import { describeValue, redactDestination } from '@ackord/core/internal'
import { replyCode } from '../client.ts'

/** A message on its way: to which exchange and key, and how large. */
export interface Envelope {
  readonly exchange: string
  readonly routingKey: string
  readonly body: Buffer
}

/** RabbitMQ took the message and had no queue for it: it is gone. */
export function unroutable(envelope: Envelope, scope: 'destination' | 'record'): PublishFailure {
  const { exchange, routingKey } = envelope
  const text =
    exchange === ''
      ? `Queue '${routingKey}' does not exist. Create it before publishing to it.`
      : `Exchange '${exchange}' has no queue for routing key '${routingKey}'. Bind one, or set mandatory: false if nobody needs to get it.`
  return { ok: false, error: failed(text), scope }
}

/** The queue is full and says so (`x-overflow: reject-publish`), or its replicas could not store the message. */
export function nacked({ exchange, routingKey }: Envelope): PublishFailure {
  const text = `RabbitMQ did not take a message to ${place(exchange, routingKey)}: the queue is full, or could not store it.`
  return { ok: false, error: failed(text), scope: 'destination' }
}

/** The channel went before RabbitMQ had confirmed: it may or may not have the message. */
export function unconfirmed({ exchange, routingKey, body }: Envelope, cause: unknown): PublishFailure {
  const code = replyCode(cause)
  if (code === 406 && tooLarge(cause) === body.byteLength) {
    const text = `A message of ${body.byteLength} bytes is larger than RabbitMQ's max_message_size.`
    return { ok: false, error: failed(text, { cause, retryable: false }), permanent: true }
  }
  const text =
    code === 404
      ? `Exchange '${exchange}' does not exist. Create it before publishing to it.`
      : code === 403
        ? `The user is not allowed to publish to ${place(exchange, routingKey)}.`
        : `The channel to RabbitMQ was lost before it had confirmed a message to ${place(exchange, routingKey)}.`
  return { ok: false, error: failed(text, { cause }), scope: 'destination' }
}

/** The connection is down, or closed for good. */
export function notConnected(text: string, cause?: unknown): PublishFailure {
  return { ok: false, error: failed(text, cause === undefined ? {} : { cause }), scope: 'destination' }
}

/** It was not confirmed when the caller's time was over, which is no fault of the message. */
export function aborted(cause: unknown): PublishFailure {
  return { ok: false, error: failed('Publishing was aborted before RabbitMQ had confirmed the message.', { cause }), scope: 'destination' }
}

export function wrongData(destination: string, data: unknown): PublishFailure {
  const text = `RabbitMQ carries bytes; a message to '${redactDestination(destination)}' has ${describeValue(data)}. Marshal it first.`
  return { ok: false, error: new AckordError('ACKORD_WRONG_DATA', text, { retryable: false }), permanent: true }
}

/** AMQP has no room for it (attributes of more than 64 kB, a name or routing key of more than 255 bytes), or an attribute is an invalid date. */
export function unencodable({ exchange, routingKey }: Pick<Envelope, 'exchange' | 'routingKey'>, cause: unknown): PublishFailure {
  const text = `A message to ${place(exchange, routingKey)} cannot be written as AMQP; the cause says what does not fit.`
  return { ok: false, error: failed(text, { cause, retryable: false }), permanent: true }
}

/** The option `route` failed, or its answer makes no sense. */
export function unrouted(destination: string, cause: unknown): PublishFailure {
  return { ok: false, error: failed(`The route of a message to '${redactDestination(destination)}' could not be told.`, { cause }) }
}

function failed(text: string, options: { readonly cause?: unknown; readonly retryable?: boolean } = {}): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', text, options)
}

function place(exchange: string, routingKey: string): string {
  return exchange === '' ? `queue '${routingKey}'` : `exchange '${exchange}'`
}

/** The size that RabbitMQ complains about; the channel it closes had other messages too. */
function tooLarge(error: unknown): number | undefined {
  const size = error instanceof Error ? /message size (\d+) is larger than/.exec(error.message)?.[1] : undefined
  return size === undefined ? undefined : Number(size)
}
