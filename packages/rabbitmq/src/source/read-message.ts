import { type Attributes, type AttributeValue, parseMessage } from '@ackord/core'
import { setAttribute } from '@ackord/core/internal'
import type { RabbitmqMessage } from '../client.ts'

const prefixes = ['cloudEvents:', 'cloudEvents_'] as const

/**
 * CloudEvents in binary mode (headers) or structured mode (content type `application/cloudevents+json`); anything else by its AMQP properties.
 * Throws for a structured event that cannot be read.
 */
export function readMessage(native: RabbitmqMessage, queue: string): { readonly data: Uint8Array; readonly attributes: Attributes } {
  const data = bytesOf(native)
  const attributes = readHeaders(native)
  if (attributes !== undefined) return { data, attributes }
  const { contentType } = native.properties
  if (typeof contentType === 'string' && structuredType.test(contentType)) return parseMessage(data)
  return { data, attributes: foreignAttributes(native, queue) }
}

const structuredType = /^application\/cloudevents\+json\s*(;|$)/i

/** A view, not a copy. */
export function bytesOf({ content }: RabbitmqMessage): Uint8Array {
  return new Uint8Array(content.buffer, content.byteOffset, content.byteLength)
}

/** What a message that is no CloudEvent says about itself. It gets no id that it does not have: a made-up one would pass every duplicate. */
export function foreignAttributes({ properties }: RabbitmqMessage, queue: string): Attributes {
  const { headers, messageId, type, appId, correlationId, contentType, timestamp } = properties
  return defined({
    id: text(messageId),
    type: text(type),
    source: text(appId) ?? queue,
    time: instant(timestamp),
    datacontenttype: text(contentType),
    correlationid: text(correlationId),
    traceparent: text(headerOf(headers, 'traceparent')),
    tracestate: text(headerOf(headers, 'tracestate')),
  })
}

/** A header of the message itself. */
export function headerOf(headers: RabbitmqMessage['properties']['headers'], name: string): unknown {
  return headers !== undefined && Object.hasOwn(headers, name) ? headers[name] : undefined
}

function readHeaders({ properties }: RabbitmqMessage): Attributes | undefined {
  const { headers = {}, contentType } = properties
  const attributes: Record<string, AttributeValue> = {}
  let found = false
  // Own headers only: amqplib lets a header table named `__proto__` become the prototype.
  for (const header of Object.keys(headers)) {
    const prefix = prefixes.find((candidate) => header.startsWith(candidate))
    const value = prefix === undefined ? undefined : attributeValue(headers[header])
    if (prefix === undefined || value === undefined) continue
    setAttribute(attributes, header.slice(prefix.length), value)
    found = true
  }
  if (!found) return undefined
  if (typeof contentType === 'string') attributes['datacontenttype'] ??= contentType
  return attributes
}

/** `undefined` for what CloudEvents has no type for: null, lists, tables. */
function attributeValue(value: unknown): AttributeValue | undefined {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  if (value instanceof Uint8Array) return new Uint8Array(value)
  return isTimestamp(value) ? instant(value.value) : undefined
}

/** How amqplib shows a header of AMQP's type timestamp. */
function isTimestamp(value: unknown): value is { readonly value: unknown } {
  return typeof value === 'object' && value !== null && '!' in value && value['!'] === 'timestamp' && 'value' in value
}

// AMQP counts in seconds, but many producers write milliseconds. In seconds this is the year 5138.
const surelyMilliseconds = 1e11
const latest = 8.64e15

function instant(value: unknown): string | undefined {
  if (typeof value !== 'number') return undefined
  const milliseconds = value < surelyMilliseconds ? value * 1000 : value
  return milliseconds >= 0 && milliseconds <= latest ? new Date(milliseconds).toISOString() : undefined
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function defined(attributes: Attributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined))
}
