import { type Attributes, parseMessage } from '@ackord/core'
import { bufferOf, definedAttributes, isStructuredContentType, readTraceHeaders } from '@ackord/core/broker'
import type { MqttPublish } from '../client.ts'
import { readUserProperties, textOf } from '../user-properties.ts'

/** The data and attributes that a source reads from a message. */
export interface ReadMessage {
  readonly data: Uint8Array
  readonly attributes: Attributes
}

/**
 * Reads a message as the source does. CloudEvents in structured mode (content type `application/cloudevents+json`) or binary mode (user properties). A message that is no CloudEvent
 * has its user properties as attributes, and its topic as its source unless one of them says otherwise. With `arrivedAt`, an instant in milliseconds since 1970, MQTT's
 * expiry of the message becomes its `expirytime`, unless it has one. Throws for a structured event that cannot be read.
 */
export function readMessage(native: MqttPublish, arrivedAt?: number): ReadMessage {
  const { contentType, messageExpiryInterval } = native.properties ?? {}
  const { data, attributes } = isStructuredContentType(contentType) ? readStructured(native) : readBinary(native)
  if (arrivedAt === undefined || messageExpiryInterval === undefined || attributes.expirytime !== undefined) return { data, attributes }
  const expirytime = new Date(arrivedAt + messageExpiryInterval * 1000).toISOString()
  return { data, attributes: { ...attributes, expirytime } }
}

function readBinary(native: MqttPublish): ReadMessage {
  return { data: bytesOf(native), attributes: binaryAttributes(native) }
}

function readStructured(native: MqttPublish): ReadMessage {
  const { userProperties = {} } = native.properties ?? {}
  const event = parseMessage(bytesOf(native))
  const header = (name: string) => (Object.hasOwn(userProperties, name) ? textOf(userProperties[name]) : undefined)
  return { data: event.data, attributes: readTraceHeaders(event.attributes, header) }
}

/** A view, not a copy. */
export function bytesOf({ payload }: MqttPublish): Uint8Array {
  const bytes = typeof payload === 'string' ? Buffer.from(payload) : bufferOf(payload)
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** The attributes of a message that is no structured event. A message without an id gets none: with a generated one, no inbox would recognise duplicates. */
export function binaryAttributes({ topic, properties = {} }: MqttPublish): Attributes {
  const { contentType, userProperties = {} } = properties
  const attributes: Attributes = readUserProperties(userProperties)
  const read = { ...attributes, ...definedAttributes({ datacontenttype: contentType ?? attributes.datacontenttype }) }
  return read.specversion === undefined && read.source === undefined ? { ...read, source: topic } : read
}
