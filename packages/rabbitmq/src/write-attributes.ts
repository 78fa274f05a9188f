import { type Attributes, type AttributeValue, parseInstant } from '@ackord/core'
import type { RabbitmqProperties } from './client.ts'

/** Read under both prefixes, written under this one: it is the one that every receiver knows, and RabbitMQ passes it on to AMQP 1.0 as it is. */
const attributePrefix = 'cloudEvents:'

/**
 * The CloudEvents binding for AMQP, binary mode: each attribute is a header, the content type is the property of that name.
 * Id, type, time and correlation id are also put where other consumers and the management page look for them.
 */
export function writeAttributes(attributes: Attributes): RabbitmqProperties {
  const properties: RabbitmqProperties = { headers: {} }
  for (const name in attributes) {
    const value = attributes[name]
    if (value === undefined || (name === 'datacontenttype' && isShort(value))) continue
    properties.headers[attributePrefix + name] = headerValue(value)
  }
  const { datacontenttype, id, type, correlationid, time } = attributes
  if (isShort(datacontenttype)) properties.contentType = datacontenttype
  if (isShort(id)) properties.messageId = id
  if (isShort(type)) properties.type = type
  if (isShort(correlationid)) properties.correlationId = correlationid
  const seconds = Math.floor((parseInstant(time)?.getTime() ?? -1) / 1000)
  if (seconds >= 0) properties.timestamp = seconds
  return properties
}

/** AMQP's properties are texts of up to 255 bytes. */
function isShort(value: unknown): value is string {
  return typeof value === 'string' && Buffer.byteLength(value) <= 255
}

function headerValue(value: AttributeValue): unknown {
  // AMQP's own timestamps have no fraction.
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  // amqplib takes large numbers for 64-bit integers, also those that do not fit, and has no negative zero.
  if (typeof value === 'number' && (!Number.isSafeInteger(value) || Object.is(value, -0))) return { '!': 'double', value }
  return value
}
