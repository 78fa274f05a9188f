import { type Attributes, parseMessage } from '@ackord/core'
import { definedAttributes, isStructuredContentType, readTraceHeaders } from '@ackord/core/broker'
import type { AmqpMessage } from '../client.ts'
import { attributeReader, instantOf } from '../cloudevents.ts'

/**
 * Reads a message as the source does, for tools that look into a queue. CloudEvents in binary mode (application properties) or structured mode (content type
 * `application/cloudevents+json`); anything else by its properties. A message without the attributes of a trace has those in its application properties `traceparent`, `tracestate` and
 * `baggage`. Throws for a structured event that cannot be read.
 */
export function readMessage(native: AmqpMessage, address: string): { readonly data: Uint8Array; readonly attributes: Attributes } {
  const data = bytesOf(native)
  const attributes = readProperties(native)
  if (attributes !== undefined) return { data, attributes }
  const { content_type: contentType } = native
  if (typeof contentType === 'string' && isStructuredContentType(contentType)) return readStructured(native, data)
  return { data, attributes: foreignAttributes(native, address) }
}

/** The body: bytes as they are, text as UTF-8, nothing as no bytes, and other values of AMQP, such as maps and lists, as JSON. */
export function bytesOf({ body }: AmqpMessage): Uint8Array {
  const content = isSection(body) ? body.content : body
  if (content instanceof Uint8Array) return new Uint8Array(content.buffer, content.byteOffset, content.byteLength)
  // Several data sections are one body.
  if (isSection(body) && body.typecode === dataSection && Array.isArray(content))
    return new Uint8Array(Buffer.concat(content.filter(isBytes)))
  if (content === undefined || content === null) return new Uint8Array(0)
  return new TextEncoder().encode(typeof content === 'string' ? content : (JSON.stringify(content) ?? ''))
}

/** The attributes of a message that is no CloudEvent, from its properties. A message without an id gets none: with a generated one, no inbox would recognise duplicates. */
export function foreignAttributes(native: AmqpMessage, address: string): Attributes {
  const { message_annotations: annotations, message_id, subject, correlation_id, content_type, creation_time, group_id } = native
  const attributes = definedAttributes({
    id: idText(message_id),
    // RabbitMQ has the type of an AMQP 0-9-1 message there.
    type: text(own(annotations, 'x-basic-type')) ?? text(subject),
    source: text(own(annotations, 'x-basic-app-id')) ?? address,
    time: instantOf(creation_time),
    datacontenttype: text(content_type),
    correlationid: idText(correlation_id),
    partitionkey: text(group_id),
  })
  return readTraceHeaders(attributes, (name) => own(native.application_properties, name))
}

const dataSection = 0x75

/** How rhea represents a body that is not a single value. */
function isSection(body: unknown): body is { readonly typecode: number; readonly content: unknown } {
  return typeof body === 'object' && body !== null && 'typecode' in body && 'content' in body
}

function isBytes(value: unknown): value is Uint8Array {
  return value instanceof Uint8Array
}

function readProperties({ application_properties: properties = {}, content_type: contentType }: AmqpMessage): Attributes | undefined {
  const attributes = attributeReader.read(Object.keys(properties), (name) => properties[name])
  if (attributes === undefined) return undefined
  if (typeof contentType === 'string') attributes['datacontenttype'] ??= contentType
  return readTraceHeaders(attributes, (name) => own(properties, name))
}

function readStructured(native: AmqpMessage, body: Uint8Array): { readonly data: Uint8Array; readonly attributes: Attributes } {
  const { data, attributes } = parseMessage(body)
  return { data, attributes: readTraceHeaders(attributes, (name) => own(native.application_properties, name)) }
}

/** A property of the message itself. */
function own(properties: Readonly<Record<string, unknown>> | undefined, name: string): unknown {
  return properties !== undefined && Object.hasOwn(properties, name) ? properties[name] : undefined
}

/** An id of AMQP is a string, a number, a UUID or bytes; rhea has the last two as a buffer. */
function idText(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  if (!(value instanceof Uint8Array)) return text(value)
  const hex = Buffer.from(value).toString('hex')
  if (value.byteLength !== 16) return text(hex)
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
