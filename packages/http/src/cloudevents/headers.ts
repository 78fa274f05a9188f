import { AckordError, type Attributes, type AttributeValue, checkAttributes, InvalidOptionError, missingAttributes } from '@ackord/core'
import { escapeText, setAttribute } from '@ackord/core/internal'

const prefix = 'ce-'
/** What HTTP takes for the name of a header. */
const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/

/**
 * The CloudEvents binding for HTTP, binary mode: each attribute is a header, the content type is the one of that name. Throws
 * for what has no form there. The types of values are lost, as HTTP knows only text.
 */
export function writeHeaders(attributes: Attributes): Record<string, string> {
  checkWritable(attributes)
  const headers: Record<string, string> = { [`${prefix}specversion`]: '1.0' }
  const written = new Set<string>()
  for (const name in attributes) {
    const value = attributes[name]
    if (value === undefined) continue
    if (name === 'datacontenttype') {
      headers['content-type'] = contentType(String(value))
      continue
    }
    const header = name.toLowerCase()
    if (!token.test(header)) throw unwritable(`Attribute '${escapeText(name, 100)}' has a name that no HTTP header can have.`)
    if (written.has(header))
      throw unwritable(`Attribute '${escapeText(name, 100)}' has the name of another one in other letters; HTTP does not tell them apart.`)
    written.add(header)
    headers[prefix + header] = encodeHeader(textOf(value), name)
  }
  return headers
}

/** Throws unless a CloudEvent can be made of them. */
export function checkWritable(attributes: Attributes): void {
  checkAttributes(attributes, 'the message', { retryable: false })
  const missing = missingAttributes({ specversion: '1.0', ...attributes })
  if (missing.length > 0)
    throw unwritable(`Its attributes lack ${missing.map((name) => `'${name}'`).join(', ')}, which a CloudEvent must have.`)
}

/** The attributes of an event in binary mode; `undefined` if there is no header of CloudEvents. */
export function readHeaders(headers: Headers): Attributes | undefined {
  const attributes: Record<string, AttributeValue> = {}
  let found = false
  for (const [header, value] of headers) {
    if (!header.startsWith(prefix) || header === prefix) continue
    setAttribute(attributes, header.slice(prefix.length), decodeHeader(value))
    found = true
  }
  if (!found) return undefined
  const type = headers.get('content-type')
  if (type !== null) attributes['datacontenttype'] = type
  return attributes
}

/** Percent-encodes white space, quotes, percent signs and all that is not printable ASCII. */
export function encodeHeader(text: string, name: string): string {
  try {
    return text.replace(/[^!#$&-~]+/gu, encodeURIComponent)
  } catch (cause) {
    throw unwritable(`Attribute '${escapeText(name, 100)}' is not valid Unicode: it has half of a surrogate pair.`, cause)
  }
}

/** Takes back quoting, then percent-encoding, once. Senders that do not encode are read as well: a percent sign that encodes nothing stands for itself. */
export function decodeHeader(value: string): string {
  const quoted = /^"((?:[^"\\]|\\.)*)"$/s.exec(value)?.[1]
  const text = quoted === undefined ? value : quoted.replaceAll(/\\(.)/gs, '$1')
  return text.replaceAll(/(?:%[0-9a-f]{2})+/gi, (encoded) => {
    try {
      return decodeURIComponent(encoded)
    } catch {
      return encoded
    }
  })
}

function textOf(value: AttributeValue): string {
  if (value instanceof Date) return value.toISOString()
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64') : String(value)
}

function contentType(value: string): string {
  if (/^[\x20-\x7e]*$/.test(value)) return value
  throw unwritable("Attribute 'datacontenttype' has characters that no media type has.")
}

/** Says what of a message has no form in HTTP. */
function unwritable(text: string, cause?: unknown): AckordError {
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text, { retryable: false, ...(cause === undefined ? {} : { cause }) })
}

/** Those that the publisher writes itself. */
const own = /^(?:ce-|webhook-|content-type$|content-length$|host$|transfer-encoding$)/i

/** Throws at headers that cannot be sent. Values are never shown: they are secrets more often than not. */
export function checkHeaders(headers: Readonly<Record<string, string>>): void {
  if (typeof headers !== 'object' || headers === null)
    throw new InvalidOptionError('headers', 'must be an object of names and texts, or a function that gives one.')
  for (const [name, value] of Object.entries(headers)) {
    if (own.test(name)) throw new InvalidOptionError('headers', `cannot have '${name}': the publisher sets it itself.`)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a header must not have.
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) || typeof value !== 'string' || /[\x00\r\n]|[^\x00-\xff]/.test(value)) {
      throw new InvalidOptionError('headers', `has '${name}', whose name or value no HTTP header can have.`)
    }
  }
}
