import { AckordError } from '../errors.ts'
import { escapeText } from '../escape-text.ts'
import { type Attributes, type AttributeValue, setAttribute } from '../message/attributes.ts'

/** How a broker's binding of CloudEvents writes attributes as headers. */
export interface HeaderBinding<Value> {
  /** Before the name of each attribute, such as `ce-` or `ce_`. */
  readonly prefix: string
  /** Other prefixes that are read as well. Default: none. */
  readonly otherPrefixes?: readonly string[] | undefined
  /** The header of `datacontenttype`, whose value is written as it is. Default: it is written like any other attribute. */
  readonly contentType?: string | undefined
  /** Whether `specversion` is written as '1.0' where a message has none. Default: false. */
  readonly addSpecversion?: boolean | undefined
  /** The name of a header without its prefix. Throws for a name that no header can have. Default: the attribute's name. */
  encodeName?(name: string): string
  /** `undefined` for a header that is no attribute. Default: the header's name. */
  decodeName?(name: string): string | undefined
  /** Throws for a value that no header can have. `undefined`: the attribute is written elsewhere. */
  encodeValue(value: AttributeValue, name: string): Value | undefined
  /** `undefined` for a value that no attribute can have. */
  decodeValue(value: Value): AttributeValue | undefined
}

/** Writes and reads CloudEvents in binary mode: attributes are headers. */
export interface HeaderCodec<Value> {
  /** The headers of a message. Throws `ACKORD_INVALID_ATTRIBUTES`, or what the binding throws, for attributes that cannot be written. */
  write(attributes: Attributes): Record<string, Value>
  /** The attributes among these headers; `undefined` if there are none. */
  read(names: Iterable<string>, get: (name: string) => Value | undefined): Record<string, AttributeValue> | undefined
}

export function headerCodec<Value>(binding: HeaderBinding<Value>): HeaderCodec<Value> {
  const { prefix, otherPrefixes = [], contentType, addSpecversion = false } = binding
  const encodeName = binding.encodeName?.bind(binding) ?? ((name: string) => name)
  const decodeName = binding.decodeName?.bind(binding) ?? ((name: string) => name)
  const prefixes = [prefix, ...otherPrefixes]
  const specversion = `${prefix}specversion`

  return {
    write(attributes) {
      const headers: Record<string, Value> = {}
      for (const name in attributes) {
        const value = attributes[name]
        if (value === undefined) continue
        const header = name === 'datacontenttype' && contentType !== undefined ? contentType : prefix + encodeName(name)
        if (headers[header] !== undefined) throw duplicateHeader(name)
        const encoded = binding.encodeValue(value, name)
        if (encoded !== undefined) headers[header] = encoded
      }
      if (addSpecversion && headers[specversion] === undefined) {
        const version = binding.encodeValue('1.0', 'specversion')
        if (version !== undefined) headers[specversion] = version
      }
      return headers
    },
    read(names, get) {
      const attributes: Record<string, AttributeValue> = {}
      let found = false
      for (const header of names) {
        const used = prefixes.find((each) => header.startsWith(each))
        const name = used === undefined || header === used ? undefined : decodeName(header.slice(used.length))
        const value = name === undefined ? undefined : get(header)
        const decoded = value === undefined ? undefined : binding.decodeValue(value)
        if (name === undefined || decoded === undefined) continue
        setAttribute(attributes, name, decoded)
        found = true
      }
      if (!found) return undefined
      const type = contentType === undefined ? undefined : get(contentType)
      if (typeof type === 'string') attributes['datacontenttype'] = type
      return attributes
    },
  }
}

function duplicateHeader(name: string): AckordError {
  const text = `Attribute '${escapeText(name, 100)}' has the same header as another attribute, for instance because their names differ only in case.`
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text, { retryable: false })
}

/** An attribute as text: instants in ISO 8601, bytes in base64. Throws for an invalid date. */
export function attributeText(value: AttributeValue): string {
  if (typeof value === 'string') return value
  if (value instanceof Date) return value.toISOString()
  return value instanceof Uint8Array ? bufferOf(value).toString('base64') : String(value)
}

/**
 * Percent-encodes everything but visible ASCII, and also spaces, double quotes and percent signs, as the CloudEvents binding for HTTP says. Throws a `URIError` for half of
 * a surrogate pair, which has no UTF-8.
 */
export function percentEncode(text: string): string {
  return needsEncoding.test(text) ? text.replace(encodedCharacters, encodeURIComponent) : text
}

/** Leaves percent signs as they are where they encode nothing, for senders that do not encode. */
export function percentDecode(text: string): string {
  if (!text.includes('%')) return text
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (encoded) => {
    try {
      return decodeURIComponent(encoded)
    } catch {
      return encoded
    }
  })
}

const needsEncoding = /[^!#$&-~]/
// Whole characters: half of a pair has no UTF-8.
const encodedCharacters = /[^!#$&-~]+/gu

/** The media type of one event in structured mode. */
export const structuredContentType = 'application/cloudevents+json'

/** Whether a content type says that the body is an event in structured mode, as JSON. */
export function isStructuredContentType(contentType: string | undefined): boolean {
  return contentType !== undefined && structuredPattern.test(contentType)
}

const structuredPattern = /^application\/cloudevents\+json\s*(;|$)/i

/** A view of the same bytes, not a copy. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** The attributes that have a value. */
export function definedAttributes(attributes: Attributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined))
}
