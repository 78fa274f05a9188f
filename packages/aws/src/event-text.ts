import type { RawMessage } from '@ackord/core'
import {
  attributeText,
  type HeaderCodec,
  headerCodec,
  percentDecode,
  percentEncode,
  structuredContentType,
  writeTraceHeaders,
} from '@ackord/core/broker'
import type { AwsMessageAttribute } from './client.ts'

/** A message as SQS and SNS carry it: a text, and at most ten message attributes. */
export interface WrittenMessage {
  readonly body: string
  readonly attributes: Record<string, AwsMessageAttribute>
  /** In bytes, as AWS counts: the text, and the names, types and values of the message attributes. */
  readonly size: number
}

export type ContentMode = 'structured' | 'binary'

/** The most message attributes that SQS allows. */
export const maxMessageAttributes = 10

/**
 * Structured mode: the event is a JSON document. Binary mode: the body is the data, and each attribute a message attribute. The trace is also in message attributes without a
 * prefix, in either mode. `copied` are attributes that become message attributes as well, for filter policies. Throws for what cannot be written.
 */
export function writeMessage(message: RawMessage, mode: ContentMode, copied: readonly string[] = []): WrittenMessage {
  const { attributes } = message
  const headers: Record<string, string> = mode === 'binary' ? attributeHeaders.write(attributes) : { 'content-type': structuredContentType }
  writeTraceHeaders(headers, attributes)
  for (const name of copied) {
    const value = attributes[name]
    const text = value === undefined ? '' : attributeText(value)
    // AWS allows no empty values.
    if (text !== '' && allowedText.test(text)) headers[name] = text
  }
  const body = mode === 'binary' ? textOf(message.data) : eventJson(message)
  return { body, attributes: messageAttributes(headers), size: sizeOf(body, headers) }
}

/** The event as one JSON document, with the characters that AWS allows. Outside of strings JSON has only ASCII. */
function eventJson(message: RawMessage): string {
  // JSON escapes lone surrogates and control characters itself. Pairs are allowed by AWS and refused by some emulators.
  return JSON.stringify(message).replace(/[\ud800-\udfff\ufffe\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16)}`)
}

/** Attributes in binary mode. The names of message attributes have letters, digits, underscores, hyphens and dots; values are never empty and have no control characters. */
export const attributeHeaders: HeaderCodec<string> = headerCodec<string>({
  prefix: 'ce_',
  otherPrefixes: ['ce-'],
  contentType: 'content-type',
  encodeName(name) {
    if (/^[A-Za-z0-9_-]+$/.test(name)) return name
    throw new Error(`The name of the attribute ${JSON.stringify(name)} cannot be the name of a message attribute. Use mode 'structured'.`)
  },
  encodeValue(value, name) {
    const text = attributeText(value).toWellFormed()
    if (name === 'datacontenttype') return text
    if (text === '') throw new Error(`The attribute '${name}' is empty, which a message attribute cannot be. Use mode 'structured'.`)
    return percentEncode(text)
  },
  decodeValue: percentDecode,
})

function messageAttributes(headers: Readonly<Record<string, string>>): Record<string, AwsMessageAttribute> {
  const names = Object.keys(headers)
  if (names.length > maxMessageAttributes) {
    throw new Error(
      `The message has ${names.length} message attributes, and AWS allows ${maxMessageAttributes}. Use mode 'structured', which has no such limit.`,
    )
  }
  return Object.fromEntries(names.map((name) => [name, { DataType: 'String', StringValue: headers[name] ?? '' }]))
}

function textOf(data: Uint8Array): string {
  const text = decode(data)
  if (text !== undefined && allowedText.test(text)) return text
  throw new Error("The data is empty, or not text that AWS carries. Use mode 'structured', which carries any bytes.")
}

function decode(data: Uint8Array): string | undefined {
  try {
    return strictUtf8.decode(data)
  } catch {
    return undefined
  }
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const allowedText = /^[\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]+$/u

function sizeOf(body: string, headers: Readonly<Record<string, string>>): number {
  let size = Buffer.byteLength(body)
  for (const name in headers) size += name.length + 'String'.length + Buffer.byteLength(headers[name] ?? '')
  return size
}
