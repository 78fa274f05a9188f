import { type Attributes, type AttributeValue, parseMessage } from '@ackord/core'
import { setAttribute } from '@ackord/core/internal'
import type { KafkaMessage } from '../port.ts'

const prefix = 'ce_'
const structuredType = /^application\/cloudevents\+json\s*(;|$)/i

/**
 * CloudEvents in binary mode (headers) or structured mode (content type `application/cloudevents+json`); anything else by its place, key and time.
 * Throws for a structured event that cannot be read.
 */
export function readRecord(native: KafkaMessage): { readonly data: Uint8Array; readonly attributes: Attributes } {
  const attributes = readHeaders(native)
  if (attributes !== undefined) return { data: bytesOf(native), attributes }
  const contentType = headerText(native, 'content-type')
  if (contentType === undefined || !structuredType.test(contentType) || native.value === null) {
    return { data: bytesOf(native), attributes: foreignAttributes(native) }
  }
  const { data, attributes: parsed } = parseMessage(bytesOf(native))
  return { data, attributes: withKey(parsed, native) }
}

/** A view, not a copy. No bytes for a tombstone. */
export function bytesOf({ value }: KafkaMessage): Uint8Array {
  return value === null ? new Uint8Array() : new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
}

/** What a record that is no CloudEvent says about itself. Its place is its id: unique as long as the topic is not made anew. */
export function foreignAttributes(native: KafkaMessage): Attributes {
  const { topic, partition, offset } = native
  const contentType = headerText(native, 'content-type')
  const time = instant(native.timestamp)
  const tombstone = native.value === null ? { tombstone: true } : {}
  return withKey(
    {
      id: `${topic}/${partition}/${offset}`,
      type: topic,
      source: topic,
      ...(time === undefined ? {} : { time }),
      ...(contentType === undefined ? {} : { datacontenttype: contentType }),
      ...tombstone,
      ...trace(native),
    },
    native,
  )
}

function readHeaders(native: KafkaMessage): Attributes | undefined {
  const attributes: Record<string, AttributeValue> = {}
  for (const header of Object.keys(native.headers)) {
    const value = header.startsWith(prefix) ? headerText(native, header) : undefined
    if (value !== undefined) setAttribute(attributes, header.slice(prefix.length), value)
  }
  // The one that every CloudEvent has; others use the prefix too.
  if (attributes['specversion'] === undefined) return undefined
  const contentType = headerText(native, 'content-type')
  if (contentType !== undefined) attributes['datacontenttype'] = contentType
  if (native.value === null) attributes['tombstone'] = true
  return withKey(attributes, native)
}

/** The record's key is the ordering key, whoever wrote it. */
function withKey(attributes: Attributes, { key }: KafkaMessage): Attributes {
  return key === null || attributes.partitionkey !== undefined ? attributes : { ...attributes, partitionkey: key.toString() }
}

function trace(native: KafkaMessage): Attributes {
  const [traceparent, tracestate] = [headerText(native, 'traceparent'), headerText(native, 'tracestate')]
  return { ...(traceparent === undefined ? {} : { traceparent }), ...(tracestate === undefined ? {} : { tracestate }) }
}

/** A header may be there several times; the first counts. */
function headerText({ headers }: KafkaMessage, name: string): string | undefined {
  const value = Object.hasOwn(headers, name) ? headers[name] : undefined
  const first = Array.isArray(value) ? value[0] : value
  return first === undefined || first === null ? undefined : first.toString()
}

const latest = 8.64e15

function instant(timestamp: string): string | undefined {
  const milliseconds = Number(timestamp)
  return milliseconds > 0 && milliseconds <= latest ? new Date(milliseconds).toISOString() : undefined
}
