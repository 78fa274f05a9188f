import { type Attributes, parseMessage } from '@ackord/core'
import { definedAttributes, isStructuredContentType, readTraceHeaders } from '@ackord/core/broker'
import { attributeHeaders } from '../cloudevents.ts'
import type { KafkaMessage } from '../port.ts'

/**
 * Reads a record as the source does, for tools that look into a topic. CloudEvents in binary mode (headers) or structured mode (content type `application/cloudevents+json`); other records by their topic, offset, key and time.
 * A record without the attributes of a trace has those in its headers `traceparent`, `tracestate` and `baggage`. Throws for a structured event that cannot be read.
 */
export function readRecord(native: KafkaMessage): { readonly data: Uint8Array; readonly attributes: Attributes } {
  const attributes = readHeaders(native)
  if (attributes !== undefined) return { data: bytesOf(native), attributes }
  if (!isStructuredContentType(headerText(native, 'content-type')) || native.value === null) {
    return { data: bytesOf(native), attributes: foreignAttributes(native) }
  }
  const { data, attributes: parsed } = parseMessage(bytesOf(native))
  return { data, attributes: completed(parsed, native) }
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
  })
  return completed(attributes, native)
}

function readHeaders(native: KafkaMessage): Attributes | undefined {
  const attributes = attributeHeaders.read(Object.keys(native.headers), (name) => headerText(native, name))
  // Every CloudEvent has a specversion; other records may use the prefix too.
  if (attributes?.['specversion'] === undefined) return undefined
  if (native.value === null) attributes['tombstone'] = true
  return completed(attributes, native)
}

/** The record's key is the ordering key, and its headers may have a trace, also in records of other producers. */
function completed(attributes: Attributes, native: KafkaMessage): Attributes {
  const traced = readTraceHeaders(attributes, (name) => headerText(native, name))
  const { key } = native
  return key === null || attributes.partitionkey !== undefined ? traced : { ...traced, partitionkey: key.toString() }
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
