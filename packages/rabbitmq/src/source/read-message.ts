import { type Attributes, parseMessage } from '@ackord/core'
import { definedAttributes, isStructuredContentType, readTraceHeaders } from '@ackord/core/broker'
import type { RabbitmqMessage } from '../client.ts'
import { attributeHeaders, instantOf } from '../cloudevents.ts'

/**
 * Reads a message as the source does, for tools that look into a queue. CloudEvents in binary mode (headers) or structured mode (content type `application/cloudevents+json`); anything else by its AMQP properties.
 * A message without the attributes of a trace has those in its headers `traceparent`, `tracestate` and `baggage`. Throws for a structured event that cannot be read.
 */
export function readMessage(native: RabbitmqMessage, queue: string): { readonly data: Uint8Array; readonly attributes: Attributes } {
  const data = bytesOf(native)
  const attributes = readHeaders(native)
  if (attributes !== undefined) return { data, attributes }
  const { contentType } = native.properties
  if (typeof contentType === 'string' && isStructuredContentType(contentType)) return readStructured(native, data)
  return { data, attributes: foreignAttributes(native, queue) }
}

/** A view, not a copy. */
export function bytesOf({ content }: RabbitmqMessage): Uint8Array {
  return new Uint8Array(content.buffer, content.byteOffset, content.byteLength)
}

/** The attributes of a message that is no CloudEvent, from its AMQP properties. A message without an id gets none: with a generated one, no inbox would recognise duplicates. */
export function foreignAttributes({ properties }: RabbitmqMessage, queue: string): Attributes {
  const { headers, messageId, type, appId, correlationId, contentType, timestamp } = properties
  const attributes = definedAttributes({
    id: text(messageId),
    type: text(type),
    source: text(appId) ?? queue,
    time: instantOf(timestamp),
    datacontenttype: text(contentType),
    correlationid: text(correlationId),
  })
  return readTraceHeaders(attributes, (name) => headerOf(headers, name))
}

/** A header of the message itself. */
export function headerOf(headers: RabbitmqMessage['properties']['headers'], name: string): unknown {
  return headers !== undefined && Object.hasOwn(headers, name) ? headers[name] : undefined
}

function readHeaders({ properties }: RabbitmqMessage): Attributes | undefined {
  const { headers = {}, contentType } = properties
  // Own headers only: amqplib lets a header table named `__proto__` become the prototype.
  const attributes = attributeHeaders.read(Object.keys(headers), (name) => headers[name])
  if (attributes === undefined) return undefined
  if (typeof contentType === 'string') attributes['datacontenttype'] ??= contentType
  return readTraceHeaders(attributes, (name) => headerOf(headers, name))
}

function readStructured({ properties }: RabbitmqMessage, body: Uint8Array): { readonly data: Uint8Array; readonly attributes: Attributes } {
  const { data, attributes } = parseMessage(body)
  return { data, attributes: readTraceHeaders(attributes, (name) => headerOf(properties.headers, name)) }
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
