import { AckordError } from '../errors.ts'
import { escapeText } from '../escape-text.ts'
import { type Attributes, type AttributeValue, checkAttributes, isDataMember, setAttribute } from './attributes.ts'
import { endOfText, memberText, parseJson } from './json.ts'

/** CloudEvents structured form: attributes at the top level, JSON data inlined, other bytes as `data_base64`. */
export function toStructured(data: unknown, attributes: Attributes): Record<string, unknown> {
  const event: Record<string, unknown> = { specversion: '1.0' }
  for (const name in attributes) {
    const value = attributes[name]
    if (value === undefined) continue
    if (isDataMember(name)) throw reserved(name)
    setAttribute(event as Record<string, AttributeValue>, name, value instanceof Uint8Array ? toBase64(value) : value)
  }
  if (!(data instanceof Uint8Array)) {
    if (data !== undefined) event['data'] = data
    return event
  }
  if (data.byteLength === 0) return event
  const json = asJson(data, attributes.datacontenttype)
  if (json === undefined) event['data_base64'] = toBase64(data)
  else event['data'] = json.value
  return event
}

/** Parses the structured form. The data is returned as bytes: of the JSON source text, of a string where the content type says so, or of `data_base64`. */
export function fromStructured(input: string | Uint8Array): { data: Uint8Array; attributes: Attributes } {
  // A byte order mark is not JSON, but some producers write one.
  const json = typeof input === 'string' ? input.replace(/^\uFEFF/, '') : decodeEnvelope(input)
  const event = parseObject(json)
  const attributes: Record<string, AttributeValue> = {}
  for (const [name, value] of Object.entries(event)) {
    if (isDataMember(name) || value === null) continue
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') {
      throw invalid(`its member '${escapeText(name, 100)}' is neither a string, a number nor a boolean`)
    }
    setAttribute(attributes, name, value)
  }
  checkAttributes(attributes, 'the parsed message', { retryable: false })
  return { data: dataOf(event, json, attributes['datacontenttype']), attributes }
}

function decodeEnvelope(input: Uint8Array): string {
  try {
    return envelopeUtf8.decode(input)
  } catch (cause) {
    throw invalid('it is not valid UTF-8', cause)
  }
}

function parseObject(json: string): Record<string, unknown> {
  let event: unknown
  try {
    event = parseJson(json)
  } catch (cause) {
    throw invalid('it is not valid JSON', cause)
  }
  if (typeof event !== 'object' || event === null || Array.isArray(event)) throw invalid('it is valid JSON, but not an object')
  // JSON.parse creates plain objects only.
  return event as Record<string, unknown>
}

function dataOf(event: Record<string, unknown>, json: string, contentType: AttributeValue | undefined): Uint8Array {
  const encoded = event['data_base64']
  if (encoded !== undefined && encoded !== null && encoded !== '') {
    if (typeof encoded !== 'string' || !isBase64(encoded)) throw invalid("its member 'data_base64' is not valid base64")
    return new Uint8Array(Buffer.from(encoded, 'base64'))
  }
  const { data } = event
  if (data === undefined) return new Uint8Array()
  const isText = typeof data === 'string' && typeof contentType === 'string' && !isJsonType(contentType)
  // Not JSON.stringify(data): that would round the numbers past 2^53.
  return utf8.encode(isText ? data : memberText(json, 'data'))
}

function asJson(bytes: Uint8Array, contentType: unknown): { readonly value: unknown } | undefined {
  if (typeof contentType === 'string' && !isJsonType(contentType)) return undefined
  try {
    const value: unknown = JSON.parse(strictUtf8.decode(bytes))
    // Inlining must not change the meaning of the bytes: it would for a number past 2^53, or a duplicate key.
    return JSON.stringify(value) === compact(strictUtf8.decode(bytes)) ? { value } : undefined
  } catch {
    return undefined
  }
}

/** The JSON text without white space between its tokens. */
function compact(json: string): string {
  // String by string: a regular expression with a repeated group overflows the stack at some megabytes of escapes.
  const parts: string[] = []
  let end = 0
  for (let start = json.indexOf('"'); start !== -1; start = json.indexOf('"', end)) {
    parts.push(json.slice(end, start).replace(/\s+/g, ''))
    end = endOfText(json, start)
    parts.push(json.slice(start, end))
  }
  parts.push(json.slice(end).replace(/\s+/g, ''))
  return parts.join('')
}

/** Whether a media type is JSON: `application/json`, `text/json` or one that ends in `+json`, with or without parameters. */
export function isJsonType(contentType: string): boolean {
  if (contentType === 'application/json') return true
  const type = contentType.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  return type === 'application/json' || type === 'text/json' || type.endsWith('+json')
}

/** With or without padding. One class of characters at a time: a repeated group overflows the stack at some megabytes. */
function isBase64(text: string): boolean {
  const { length } = text.replace(/={1,2}$/, '')
  return base64Characters.test(text) && length % 4 !== 1 && (length === text.length || text.length % 4 === 0)
}

const base64Characters = /^[A-Za-z0-9+/]*={0,2}$/
const utf8 = new TextEncoder()
const envelopeUtf8 = new TextDecoder('utf-8', { fatal: true })
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

function invalid(problem: string, cause?: unknown): AckordError {
  return new AckordError('ACKORD_INVALID_MESSAGE', `Cannot read the message: ${problem}.`, {
    retryable: false,
    ...(cause === undefined ? {} : { cause }),
  })
}

function reserved(name: string): AckordError {
  const text = `An attribute cannot be named '${name}': CloudEvents reserves that name for the data.`
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text, { retryable: false })
}
