import type { RawMessage } from '@ackord/core'
import { bufferOf, checkAttributes, structuredContentType, writeTraceHeaders } from '@ackord/core/broker'
import { attributeHeaders } from '../cloudevents.ts'
import type { KafkaRecord } from '../port.ts'

/**
 * The CloudEvents binding for Kafka. Binary mode: each attribute is a header, the data is the value. Structured mode: both are JSON in the value. The `partitionkey` is
 * the record's key in either mode, and the trace is also in headers without a prefix. Throws for invalid attributes.
 */
export function writeRecord(message: RawMessage, mode: 'binary' | 'structured'): KafkaRecord {
  const { data, attributes, partitionKey } = message
  checkAttributes(attributes, 'the message', { retryable: false })
  const key = partitionKey === undefined ? null : Buffer.from(partitionKey)
  const headers = mode === 'binary' ? attributeHeaders.write(attributes) : { 'content-type': `${structuredContentType}; charset=UTF-8` }
  writeTraceHeaders(headers, attributes)
  return { key, value: mode === 'binary' ? bufferOf(data) : Buffer.from(JSON.stringify(message)), headers }
}
