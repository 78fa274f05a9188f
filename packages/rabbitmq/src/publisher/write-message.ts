import { type Attributes, type AttributeValue, parseInstant, type RawMessage } from '@ackord/core'
import type { RabbitmqProperties } from '../client.ts'

/** Read under both prefixes, written under this one: it is the one that every receiver knows, and RabbitMQ passes it on to AMQP 1.0 as it is. */
const attributePrefix = 'cloudEvents:'

/** What goes on the wire. */
export interface Written {
  readonly body: Buffer
  readonly properties: RabbitmqProperties
}

/**
 * The CloudEvents binding for AMQP, binary mode: the bytes are the body, each attribute is a header, the content type is the property of that name.
 * Throws at what AMQP cannot say.
 */
export function writeBinary({ data, attributes }: RawMessage): Written {
  const headers: Record<string, unknown> = {}
  for (const name in attributes) {
    const value = attributes[name]
    if (value === undefined || (name === 'datacontenttype' && isShort(value))) continue
    headers[attributePrefix + name] = headerValue(value)
  }
  const { datacontenttype } = attributes
  const contentType = isShort(datacontenttype) ? { contentType: datacontenttype } : {}
  return {
    body: Buffer.from(data.buffer, data.byteOffset, data.byteLength),
    properties: { headers, ...commonProperties(attributes), ...contentType },
  }
}

/** Structured mode: attributes and data are one JSON text. Throws at what is no event. */
export function writeStructured(message: RawMessage): Written {
  return {
    body: Buffer.from(JSON.stringify(message)),
    properties: { headers: {}, ...commonProperties(message.attributes), contentType: structuredType },
  }
}

const structuredType = 'application/cloudevents+json; charset=utf-8'

/** Id, type, time and correlation id are also put where other consumers and the management page look for them. */
function commonProperties({ id, type, correlationid, time }: Attributes): Omit<RabbitmqProperties, 'headers' | 'contentType'> {
  const seconds = Math.floor((parseInstant(time)?.getTime() ?? -1) / 1000)
  return {
    ...(isShort(id) ? { messageId: id } : {}),
    ...(isShort(type) ? { type } : {}),
    ...(isShort(correlationid) ? { correlationId: correlationid } : {}),
    ...(seconds >= 0 ? { timestamp: seconds } : {}),
  }
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
