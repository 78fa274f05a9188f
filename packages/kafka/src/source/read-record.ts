import { type Attributes, parseMessage } from '@ackord/core'
import { definedAttributes, isStructuredContentType } from '@ackord/core/broker'
import { attributeHeaders } from '../cloudevents.ts'
import type { KafkaMessage } from '../port.ts'

/**
 * CloudEvents in binary mode (headers) or structured mode (content type `application/cloudevents+json`); other records by their topic, offset, key and time.
 * Throws for a structured event that cannot be read.
 */
export function readRecord(native: KafkaMessage): { readonly data: Uint8Array; readonly attributes: Attributes } {
  const attributes = readHeaders(native)
  if (attributes !== undefined) return { data: bytesOf(native), attributes }
  if (!isStructuredContentType(headerText(native, 'content-type')) || native.value === null) {
    return { data: bytesOf(native), attributes: foreignAttributes(native) }
  }
  const { data, attributes: parsed } = parseMessage(bytesOf(native))
  return { data, attributes: withKey(parsed, native) }
}

/** A view, not a copy. Empty for a tombstone. */
export function bytesOf({ value }: KafkaMessage): Uint8Array {
  return value === null ? new Uint8Array() : new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
}

/** The attributes of a record that is no CloudEvent. Topic, partition and offset are its id: unique as long as the topic is not created again. */
export function foreignAttributes(native: KafkaMessage): Attributes {
  const { topic, partition, offset } = native
  const attributes = definedAttributes({
    id: `${topic}/${partition}/${offset}`,
    type: topic,
    source: topic,
    time: instantOf(native.timestamp),
    datacontenttype: headerText(native, 'content-type'),
    tombstone: native.value === null ? true : undefined,
    traceparent: headerText(native, 'traceparent'),
    tracestate: headerText(native, 'tracestate'),
  })
  return withKey(attributes, native)
}

function readHeaders(native: KafkaMessage): Attributes | undefined {
  const attributes = attributeHeaders.read(Object.keys(native.headers), (name) => headerText(native, name))
  // Every CloudEvent has a specversion; other records may use the prefix too.
  if (attributes?.['specversion'] === undefined) return undefined
  if (native.value === null) attributes['tombstone'] = true
  return withKey(attributes, native)
}

/** The record's key is the ordering key, also in records of other producers. */
function withKey(attributes: Attributes, { key }: KafkaMessage): Attributes {
  return key === null || attributes.partitionkey !== undefined ? attributes : { ...attributes, partitionkey: key.toString() }
}

/** A header may occur several times; the first one counts. */
function headerText({ headers }: KafkaMessage, name: string): string | undefined {
  const value = Object.hasOwn(headers, name) ? headers[name] : undefined
  const first = Array.isArray(value) ? value[0] : value
  return first === undefined || first === null ? undefined : first.toString()
}

const latest = 8.64e15

function instantOf(timestamp: string): string | undefined {
  const milliseconds = Number(timestamp)
  return milliseconds > 0 && milliseconds <= latest ? new Date(milliseconds).toISOString() : undefined
}
