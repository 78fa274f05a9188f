import type { RawMessage } from '@ackord/core'
import { bufferOf, structuredContentType, writeTraceHeaders } from '@ackord/core/broker'
import type { MqttPublishProperties } from '../client.ts'
import { isContentType, writeUserProperties } from '../user-properties.ts'

/** A message in MQTT's format. */
export interface Envelope {
  readonly topic: string
  readonly payload: Buffer
  readonly properties: MqttPublishProperties
}

/**
 * The CloudEvents binding for MQTT 5. Binary mode: each attribute is a user property, the content type is the property of that name, the data is the payload. Structured mode: attributes and
 * data are one JSON text; the trace is also in user properties. Throws for attributes that MQTT cannot carry.
 */
export function writeMessage(message: RawMessage, topic: string, mode: 'binary' | 'structured'): Envelope {
  return mode === 'binary' ? writeBinary(message, topic) : writeStructured(message, topic)
}

function writeBinary({ data, attributes }: RawMessage, topic: string): Envelope {
  const { datacontenttype } = attributes
  const contentType = isContentType(datacontenttype) ? { contentType: datacontenttype } : {}
  return { topic, payload: bufferOf(data), properties: { ...contentType, ...nonEmpty(writeUserProperties(attributes)) } }
}

function writeStructured(message: RawMessage, topic: string): Envelope {
  const userProperties: Record<string, string> = {}
  writeTraceHeaders(userProperties, message.attributes)
  return {
    topic,
    payload: Buffer.from(JSON.stringify(message)),
    properties: { contentType: `${structuredContentType}; charset=utf-8`, ...nonEmpty(userProperties) },
  }
}

/** The client sends nothing at all, without an error, if the user properties are an empty object. */
function nonEmpty(userProperties: Record<string, string | string[]>): MqttPublishProperties {
  return Object.keys(userProperties).length === 0 ? {} : { userProperties }
}

/** The bytes of the whole packet, which a broker may limit by its maximum packet size. */
export function packetSize({ topic, payload, properties }: Envelope): number {
  const { contentType, userProperties = {} } = properties
  let propertiesSize = contentType === undefined ? 0 : 1 + stringSize(contentType)
  for (const name of Object.keys(userProperties)) {
    for (const value of [userProperties[name] ?? []].flat()) propertiesSize += 1 + stringSize(name) + stringSize(value)
  }
  // Two bytes are the packet identifier.
  const remaining = stringSize(topic) + 2 + variableSize(propertiesSize) + propertiesSize + payload.byteLength
  return 1 + variableSize(remaining) + remaining
}

function stringSize(text: string): number {
  return 2 + Buffer.byteLength(text)
}

/** The bytes of an integer with seven bits in each. */
function variableSize(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : 4
}

/** The largest remaining length that MQTT's encoding has. */
export const maxPacketSize = 268_435_455
