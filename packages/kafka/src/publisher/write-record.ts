import type { RawMessage } from '@ackord/core'
import { bufferOf, checkAttributes, structuredContentType } from '@ackord/core/broker'
import { attributeHeaders } from '../cloudevents.ts'
import type { KafkaRecord } from '../port.ts'

/**
 * The CloudEvents binding for Kafka. Binary mode: each attribute is a header, the data is the value. Structured mode: both are JSON in the value. The `partitionkey` is
 * the record's key in either mode. Throws for invalid attributes.
 */
export function writeRecord(message: RawMessage, mode: 'binary' | 'structured'): KafkaRecord {
  const { data, attributes, partitionKey } = message
  checkAttributes(attributes, 'the message', { retryable: false })
  const key = partitionKey === undefined ? null : Buffer.from(partitionKey)
  if (mode === 'structured') {
    return { key, value: Buffer.from(JSON.stringify(message)), headers: { 'content-type': `${structuredContentType}; charset=UTF-8` } }
  }
  return { key, value: bufferOf(data), headers: attributeHeaders.write(attributes) }
}
