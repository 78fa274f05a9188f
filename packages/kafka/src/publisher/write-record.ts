import { type Attributes, type AttributeValue, checkAttributes, type RawMessage } from '@ackord/core'
import type { KafkaRecord } from '../port.ts'

const prefix = 'ce_'
const structuredType = 'application/cloudevents+json; charset=UTF-8'

/**
 * The CloudEvents binding for Kafka. Binary: each attribute is a header, the data is the value. Structured: both are JSON in the value. The `partitionkey` is
 * the record's key either way. Throws for attributes that cannot travel.
 */
export function writeRecord(message: RawMessage, mode: 'binary' | 'structured'): KafkaRecord {
  const { data, attributes, partitionKey } = message
  checkAttributes(attributes, 'the message', { retryable: false })
  const key = partitionKey === undefined ? null : Buffer.from(partitionKey)
  if (mode === 'structured') return { key, value: Buffer.from(JSON.stringify(message)), headers: { 'content-type': structuredType } }
  return { key, value: Buffer.from(data.buffer, data.byteOffset, data.byteLength), headers: headersOf(attributes) }
}

function headersOf(attributes: Attributes): Record<string, string> {
  const headers: Record<string, string> = { [`${prefix}specversion`]: '1.0' }
  for (const name in attributes) {
    const value = attributes[name]
    if (value !== undefined) headers[name === 'datacontenttype' ? 'content-type' : prefix + name] = textOf(value)
  }
  return headers
}

function textOf(value: AttributeValue): string {
  if (value instanceof Date) return value.toISOString()
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64') : String(value)
}
