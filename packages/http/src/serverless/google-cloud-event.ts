import type { SingleMessageHandler } from '@ackord/core/broker'
import { countOf, eventContent, instantOf, readContent, textOf } from './message-content.ts'
import { type ServerlessOptions, TimedInvocations } from './serverless-options.ts'

/** A CloudEvent as the Functions Framework passes it to a function; others attributes are members as well. */
export interface GoogleCloudEvent {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly specversion?: string | undefined
  readonly data?: unknown
}

/**
 * A CloudEvent function of Google Cloud Functions, or of Cloud Run functions. It throws if the event must be delivered again, which the platform does if the trigger has "retry on
 * failure". A message of Pub/Sub is unwrapped: a CloudEvent in it is read as such, other messages have their message id as the id, and the ordering key as `partitionkey`.
 *
 *     functions.cloudEvent('orders', googleCloudEvent(service))
 */
export function googleCloudEvent(
  handler: SingleMessageHandler,
  options: ServerlessOptions = {},
): (event: GoogleCloudEvent) => Promise<void> {
  const timed = new TimedInvocations(handler, options)

  return async function handleEvent(event) {
    const content = eventContent(event)
    const published = publishedMessage(event)
    const message =
      published === undefined
        ? { ...content, origin: event.source }
        : readContent({ ...published, foreign: { ...content.attributes, ...published.foreign } })
    await timed.handleAll([message])
  }
}

/** The message in an event of Pub/Sub. */
function publishedMessage({ type, source, data }: GoogleCloudEvent): Parameters<typeof readContent>[0] | undefined {
  if (type !== 'google.cloud.pubsub.topic.v1.messagePublished' || typeof data !== 'object' || data === null) return undefined
  const { message, deliveryAttempt } = data as { readonly message?: unknown; readonly deliveryAttempt?: unknown }
  if (typeof message !== 'object' || message === null) return undefined
  const { data: encoded, attributes, messageId, publishTime, orderingKey } = message as Readonly<Record<string, unknown>>
  const properties = typeof attributes === 'object' && attributes !== null ? (attributes as Readonly<Record<string, unknown>>) : {}
  const contentType = textOf(properties['content-type']) ?? textOf(properties['Content-Type'])
  return {
    body: typeof encoded === 'string' ? textIfStructured(Buffer.from(encoded, 'base64')) : undefined,
    ...{ properties, contentType, origin: source, deliveryCount: countOf(deliveryAttempt) },
    foreign: {
      id: textOf(messageId),
      time: instantOf(publishTime),
      partitionkey: textOf(orderingKey),
      // Those of the event describe the envelope.
      datacontenttype: contentType,
    },
  }
}

/** As a text where it may be a CloudEvent that does not say so. */
function textIfStructured(bytes: Buffer): string | Uint8Array {
  return bytes.includes('"specversion"') ? bytes.toString() : bytes
}
