import type { RawMessage } from '@ackord/core'
import { structuredContentType, writeTraceHeaders } from '@ackord/core/broker'
import { attributeHeaders } from '../headers.ts'

/** A message as NATS carries it. The names and values of headers are encoded, in ASCII. */
export interface WrittenMessage {
  readonly headers: Record<string, string>
  readonly body: Uint8Array
}

/**
 * The CloudEvents binding for NATS. Binary mode: each attribute is a header, the data is the body. Structured mode: both are JSON in the body. The trace is also in headers
 * without a prefix, in either mode.
 */
export function writeMessage(message: RawMessage, mode: 'binary' | 'structured'): WrittenMessage {
  const { data, attributes } = message
  const headers = mode === 'binary' ? attributeHeaders.write(attributes) : { 'content-type': structuredContentType }
  writeTraceHeaders(headers, attributes)
  return { headers, body: mode === 'binary' ? data : utf8.encode(JSON.stringify(message)) }
}

const utf8 = new TextEncoder()

/** The bytes of the message with its headers, of which NATS allows as many as the server's `max_payload`. */
export function writtenSize({ headers, body }: WrittenMessage): number {
  // NATS/1.0␍␊ name: value␍␊ … ␍␊
  let size = 12 + body.byteLength
  for (const name in headers) size += name.length + (headers[name]?.length ?? 0) + 4
  return size
}
