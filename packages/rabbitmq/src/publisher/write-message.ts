import type { Attributes, RawMessage } from '@ackord/core'
import { bufferOf, parseInstant, structuredContentType, writeTraceHeaders } from '@ackord/core/broker'
import type { RabbitmqProperties } from '../client.ts'
import { attributeHeaders, isShort } from '../cloudevents.ts'

/** Body and properties as they are sent. */
export interface WrittenMessage {
  readonly body: Buffer
  readonly properties: RabbitmqProperties
}

/**
 * The CloudEvents binding for AMQP, binary mode: the bytes are the body, each attribute is a header, the content type is the property of that name. The trace
 * is also in headers without a prefix, in either mode. Throws for attributes that AMQP cannot represent.
 */
export function writeBinary({ data, attributes }: RawMessage): WrittenMessage {
  const { datacontenttype } = attributes
  const contentType = isShort(datacontenttype) ? { contentType: datacontenttype } : {}
  const headers = attributeHeaders.write(attributes)
  writeTraceHeaders(headers, attributes)
  return { body: bufferOf(data), properties: { headers, ...commonProperties(attributes), ...contentType } }
}

/** Structured mode: attributes and data are one JSON text. Throws for a message that is no event. */
export function writeStructured(message: RawMessage): WrittenMessage {
  const headers: Record<string, unknown> = {}
  writeTraceHeaders(headers, message.attributes)
  return {
    body: Buffer.from(JSON.stringify(message)),
    properties: { headers, ...commonProperties(message.attributes), contentType: `${structuredContentType}; charset=utf-8` },
  }
}

/** Id, type, time and correlation id are also written as properties, where other consumers and the management page look for them. */
function commonProperties({ id, type, correlationid, time }: Attributes): Omit<RabbitmqProperties, 'headers' | 'contentType'> {
  const seconds = Math.floor((parseInstant(time)?.getTime() ?? -1) / 1000)
  return {
    ...(isShort(id) ? { messageId: id } : {}),
    ...(isShort(type) ? { type } : {}),
    ...(isShort(correlationid) ? { correlationId: correlationid } : {}),
    ...(seconds >= 0 ? { timestamp: seconds } : {}),
  }
}
