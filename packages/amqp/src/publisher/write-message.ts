import type { Attributes, RawMessage } from '@ackord/core'
import { bufferOf, type HeaderCodec, parseInstant, structuredContentType, writeTraceHeaders } from '@ackord/core/broker'
import type { AmqpContainer, AmqpProperties } from '../client.ts'
import { attributeProperties, isSymbol } from '../cloudevents.ts'

export interface MessageWriterOptions {
  readonly mode: 'binary' | 'structured'
  readonly durable: boolean
}

/** Returns a function that encodes a message, with the encoder of the connection's rhea. It throws for attributes that AMQP cannot represent. */
export function messageWriter(container: AmqpContainer, { mode, durable }: MessageWriterOptions): (message: RawMessage) => Buffer {
  const codec = attributeProperties(container)
  const write = mode === 'binary' ? binarySections : structuredSections
  return (message) => {
    const { data, ...sections } = write(message, codec)
    return container.message.encode({
      durable,
      ...commonProperties(message.attributes),
      ...sections,
      body: container.message.data_section(data),
    })
  }
}

type Sections = Pick<AmqpProperties, 'application_properties' | 'content_type'> & { readonly data: Buffer }

/**
 * The CloudEvents binding for AMQP, binary mode: the bytes are the body, each attribute is an application property, the content type is the property of that name. The
 * trace is also in properties without a prefix, in either mode.
 */
function binarySections({ data, attributes }: RawMessage, codec: HeaderCodec<unknown>): Sections {
  const { datacontenttype } = attributes
  const properties = codec.write(attributes)
  writeTraceHeaders(properties, attributes)
  return {
    data: bufferOf(data),
    application_properties: properties,
    ...(isSymbol(datacontenttype) ? { content_type: datacontenttype } : {}),
  }
}

/** Structured mode: attributes and data are one JSON text. Throws for a message that is no event. */
function structuredSections(message: RawMessage): Sections {
  const properties: Record<string, unknown> = {}
  writeTraceHeaders(properties, message.attributes)
  return {
    data: Buffer.from(JSON.stringify(message)),
    application_properties: properties,
    content_type: `${structuredContentType}; charset=utf-8`,
  }
}

/**
 * Id, type, time and correlation id are also written as properties, where other consumers look for them. The group is the ordering key: Service Bus has it as the session,
 * Artemis as the message group.
 */
function commonProperties({
  id,
  type,
  correlationid,
  time,
  partitionkey,
}: Attributes): Omit<AmqpProperties, 'body' | 'durable' | 'application_properties'> {
  const created = parseInstant(time)
  return {
    ...(isText(id) ? { message_id: id } : {}),
    ...(isText(type) ? { subject: type } : {}),
    ...(isText(correlationid) ? { correlation_id: correlationid } : {}),
    ...(isText(partitionkey) ? { group_id: partitionkey } : {}),
    ...(created === undefined ? {} : { creation_time: created }),
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
