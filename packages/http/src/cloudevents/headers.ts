import { AckordError, type Attributes, type AttributeValue, InvalidOptionError } from '@ackord/core'
import {
  attributeText,
  checkAttributes,
  type HeaderCodec,
  headerCodec,
  missingAttributes,
  percentDecode,
  percentEncode,
} from '@ackord/core/broker'
import { escapeText } from '@ackord/core/internal'

/** The characters that HTTP allows in the name of a header. */
const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/

/** The CloudEvents binding for HTTP. The types of values are lost, because headers are text. */
const attributeHeaders: HeaderCodec<string> = headerCodec<string>({
  prefix: 'ce-',
  contentType: 'content-type',
  addSpecversion: true,
  encodeName,
  encodeValue,
  decodeValue: decodeText,
})

/** Binary mode: each attribute is a header, the content type is the one of that name. Throws for attributes that HTTP cannot represent. */
export function writeHeaders(attributes: Attributes): Record<string, string> {
  checkWritable(attributes)
  return attributeHeaders.write(attributes)
}

/** Throws unless the attributes are those of a CloudEvent. */
export function checkWritable(attributes: Attributes): void {
  checkAttributes(attributes, 'the message', { retryable: false })
  const missing = missingAttributes({ specversion: '1.0', ...attributes })
  if (missing.length > 0)
    throw unwritable(`Its attributes lack ${missing.map((name) => `'${name}'`).join(', ')}, which a CloudEvent must have.`)
}

/** The attributes of an event in binary mode; `undefined` if there is no header of CloudEvents. */
export function readHeaders(headers: Headers): Attributes | undefined {
  return attributeHeaders.read(headers.keys(), (name) => headers.get(name) ?? undefined)
}

/** Percent-encodes white space, quotes, percent signs and everything that is not printable ASCII. */
export function encodeText(text: string, name: string): string {
  try {
    return percentEncode(text)
  } catch (cause) {
    throw unwritable(`Attribute '${escapeText(name, 100)}' is not valid Unicode: it has half of a surrogate pair.`, cause)
  }
}

/** Removes quoting, then decodes percent-encoding, once. Values of senders that do not encode are read as well: a percent sign that encodes nothing stands for itself. */
export function decodeText(value: string): string {
  const quoted = /^"((?:[^"\\]|\\.)*)"$/s.exec(value)?.[1]
  return percentDecode(quoted === undefined ? value : quoted.replaceAll(/\\(.)/gs, '$1'))
}

function encodeName(name: string): string {
  const header = name.toLowerCase()
  if (token.test(header)) return header
  throw unwritable(`Attribute '${escapeText(name, 100)}' has a name that is not valid in an HTTP header.`)
}

function encodeValue(value: AttributeValue, name: string): string {
  if (name !== 'datacontenttype') return encodeText(attributeText(value), name)
  const text = String(value)
  if (/^[\x20-\x7e]*$/.test(text)) return text
  throw unwritable("Attribute 'datacontenttype' has characters that are not valid in a media type.")
}

/** The part of a message that HTTP cannot represent. */
function unwritable(text: string, cause?: unknown): AckordError {
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text, { retryable: false, ...(cause === undefined ? {} : { cause }) })
}

/** The headers that the publisher writes itself. */
const own = /^(?:ce-|webhook-|content-type$|content-length$|host$|transfer-encoding$)/i

/** Throws for headers that cannot be sent. Values are never shown: most of them are secrets. */
export function checkHeaders(headers: Readonly<Record<string, string>>): void {
  if (typeof headers !== 'object' || headers === null)
    throw new InvalidOptionError('headers', 'must be an object of names and strings, or a function that returns one.')
  for (const [name, value] of Object.entries(headers)) {
    if (own.test(name)) throw new InvalidOptionError('headers', `must not contain '${name}': the publisher sets it itself.`)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that a header must not have.
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) || typeof value !== 'string' || /[\x00\r\n]|[^\x00-\xff]/.test(value)) {
      throw new InvalidOptionError('headers', `contains '${name}', whose name or value is not valid in an HTTP header.`)
    }
  }
}

/** Milliseconds. A longer delay is a mistake of the server, and would stop its destination for good. */
const maxDelay = 24 * 60 * 60 * 1000

/** The delay of a `Retry-After` header in milliseconds from `now` on; `undefined` if the header is missing or invalid. */
export function parseRetryAfter(value: string | null, now: number): number | undefined {
  if (value === null) return undefined
  const text = value.trim()
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, maxDelay)
  // Date.parse accepts many formats; dates of HTTP begin with the day of the week.
  const time = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(time) ? undefined : Math.min(Math.max(0, time - now), maxDelay)
}

/** The header for a delay in milliseconds. It is in whole seconds, rounded up. */
export function formatRetryAfter(delay: number): string {
  return String(Math.ceil(delay / 1000))
}
