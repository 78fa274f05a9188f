import type { Attributes } from '@ackord/core'
import type { SingleMessageHandler } from '@ackord/core/broker'
import type { InvokedMessage } from '@ackord/core/internal'
import { countOf, eventContent, instantOf, type PlatformMessage, readContent, textOf } from './message-content.ts'
import { type ServerlessOptions, TimedInvocations } from './serverless-options.ts'

/** The part that is used of the `InvocationContext` of the v4 programming model. */
export interface AzureContext {
  readonly functionName?: string | undefined
  readonly triggerMetadata?: Readonly<Record<string, unknown>> | undefined
  readonly options?: { readonly trigger?: Readonly<Record<string, unknown>> | undefined } | undefined
}

/** The handler of a trigger. */
export type AzureFunction = (item: unknown, context: AzureContext) => Promise<void>

/**
 * The handler of a Service Bus trigger, for a queue or a topic, with one message per invocation or with many (`cardinality: 'many'`). It throws if a message must be delivered
 * again: Service Bus abandons it, and dead-letters it after the `maxDeliveryCount` of the queue. Of a batch all messages are delivered again then, and the inbox recognises those that
 * were handled.
 *
 *     app.serviceBusQueue('orders', { connection: 'ServiceBus', queueName: 'orders', handler: azureServiceBus(service) })
 */
export function azureServiceBus(handler: SingleMessageHandler, options: ServerlessOptions = {}): AzureFunction {
  const timed = new TimedInvocations(handler, options)

  return async function handleMessages(item, context) {
    await timed.handleAll(serviceBusMessages(item, context).map(readContent))
  }
}

/**
 * The handler of a Queue storage trigger. It throws if the message must be delivered again; after `maxDequeueCount` deliveries the platform moves it to the poison queue.
 *
 *     app.storageQueue('orders', { connection: 'Storage', queueName: 'orders', handler: azureQueue(service) })
 */
export function azureQueue(handler: SingleMessageHandler, options: ServerlessOptions = {}): AzureFunction {
  const timed = new TimedInvocations(handler, options)

  return async function handleMessage(body, context) {
    const { id, dequeueCount, insertionTime } = context?.triggerMetadata ?? {}
    const origin = originOf(context)
    const foreign = { id: textOf(id), source: origin, type: origin, time: instantOf(insertionTime) }
    await timed.handleAll([readContent({ body, foreign, deliveryCount: countOf(dequeueCount), origin })])
  }
}

/**
 * The handler of an Event Grid trigger, for events in the CloudEvents schema or in that of Event Grid. It throws if the event must be delivered again, which Event Grid does for a
 * day by default, and dead-letters it then if that is configured.
 *
 *     app.eventGrid('orders', { handler: azureEventGrid(service) })
 */
export function azureEventGrid(handler: SingleMessageHandler, options: ServerlessOptions = {}): AzureFunction {
  const timed = new TimedInvocations(handler, options)

  return async function handleEvent(event) {
    await timed.handleAll([eventGridMessage(event)])
  }
}

function eventGridMessage(event: unknown): InvokedMessage {
  const { eventType, topic, id, subject, eventTime, data } = (event ?? {}) as Readonly<Record<string, unknown>>
  const type = textOf(eventType)
  if (type === undefined) return { ...eventContent(event), origin: textOf((event as { readonly source?: unknown } | null)?.source) }
  const source = textOf(topic)
  const foreign = {
    id: textOf(id),
    source,
    type,
    subject: textOf(subject),
    time: instantOf(eventTime),
    datacontenttype: 'application/json',
  }
  return readContent({ body: data, foreign, origin: source })
}

/** A single message may be an array too: only the metadata show whether it is a batch. */
function serviceBusMessages(item: unknown, context: AzureContext): readonly PlatformMessage[] {
  const metadata = context?.triggerMetadata ?? {}
  const isBatch = Array.isArray(item) && Array.isArray(metadata['messageIdArray'])
  if (!isBatch) return [serviceBusMessage(item, (name) => metadata[name], context)]
  return item.map((body: unknown, index) => {
    const property = (name: string) => {
      const values = metadata[`${name}Array`]
      return Array.isArray(values) ? (values as readonly unknown[])[index] : undefined
    }
    return serviceBusMessage(body, property, context)
  })
}

function serviceBusMessage(body: unknown, property: (name: string) => unknown, context: AzureContext): PlatformMessage {
  const properties = property('applicationProperties') ?? property('userProperties')
  const contentType = textOf(property('contentType'))
  const subject = textOf(property('subject')) ?? textOf(property('label'))
  const origin = originOf(context)
  const foreign: Attributes = {
    id: textOf(property('messageId')),
    source: origin,
    type: subject ?? origin,
    time: instantOf(property('enqueuedTimeUtc')),
    correlationid: textOf(property('correlationId')),
    partitionkey: textOf(property('sessionId')) ?? textOf(property('partitionKey')),
  }
  return {
    ...{ body, contentType, foreign, origin, deliveryCount: countOf(property('deliveryCount')) },
    properties: typeof properties === 'object' && properties !== null ? (properties as Readonly<Record<string, unknown>>) : {},
  }
}

/** The queue or topic of the trigger. */
function originOf(context: AzureContext): string | undefined {
  const { queueName, topicName } = context?.options?.trigger ?? {}
  return textOf(queueName) ?? textOf(topicName) ?? textOf(context?.functionName)
}
