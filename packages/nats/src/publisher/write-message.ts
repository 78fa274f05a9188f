import type { RawMessage } from '@ackord/core'
import { structuredContentType } from '@ackord/core/broker'
import { attributeHeaders } from '../headers.ts'

/** A message as NATS carries it. The names and values of headers are encoded, in ASCII. */
export interface WrittenMessage {
  readonly headers: Record<string, string>
  readonly body: Uint8Array
}

/** The CloudEvents binding for NATS. Binary mode: each attribute is a header, the data is the body. Structured mode: both are JSON in the body. */
export function writeMessage(message: RawMessage, mode: 'binary' | 'structured'): WrittenMessage {
  if (mode === 'structured') {
    return { headers: { 'content-type': structuredContentType }, body: utf8.encode(JSON.stringify(message)) }
  }
  return { headers: attributeHeaders.write(message.attributes), body: message.data }
}

const utf8 = new TextEncoder()

/** The bytes of the message with its headers, of which NATS allows as many as the server's `max_payload`. */
export function writtenSize({ headers, body }: WrittenMessage): number {
  // NATS/1.0␍␊ name: value␍␊ … ␍␊
  let size = 12 + body.byteLength
  for (const name in headers) size += name.length + (headers[name]?.length ?? 0) + 4
  return size
}
