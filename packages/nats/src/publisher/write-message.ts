import type { Attributes, AttributeValue, RawMessage } from '@ackord/core'
import { encodeHeader, encodeName } from '../headers.ts'

/** What goes to NATS for a message. Names and values are ready to be sent, in ASCII. */
export interface WrittenMessage {
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Uint8Array
}

/**
 * The CloudEvents binding for NATS. Binary mode: each attribute is a header, the data is the body. Structured mode: all of it is JSON in the body.
 */
export function writeMessage(message: RawMessage, mode: 'binary' | 'structured'): WrittenMessage {
  if (mode === 'structured') {
    return { headers: [['content-type', 'application/cloudevents+json']], body: utf8.encode(JSON.stringify(message)) }
  }
  return { headers: attributeHeaders(message.attributes), body: message.data }
}

const utf8 = new TextEncoder()

/** Bytes that the message takes, of which NATS allows as many as the server's `max_payload`. */
export function writtenSize({ headers, body }: WrittenMessage): number {
  // NATS/1.0␍␊ name: value␍␊ … ␍␊
  return headers.reduce((size, [name, value]) => size + name.length + value.length + 4, 12) + body.byteLength
}

function attributeHeaders(attributes: Attributes): [string, string][] {
  const headers: [string, string][] = []
  for (const name in attributes) {
    const value = attributes[name]
    if (value !== undefined) headers.push([`ce-${encodeName(name)}`, encodeHeader(attributeText(value))])
  }
  return headers
}

function attributeText(value: AttributeValue): string {
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')
  return String(value)
}
