import { AckordError, type Attributes, type AttributeValue } from '@ackord/core'
import { attributeText, isStructuredContentType } from '@ackord/core/broker'
import { escapeText, setAttribute } from '@ackord/core/internal'
import { maxStringLength } from './topic.ts'

/**
 * The user property that names the attributes whose name and value are percent-encoded, one user property for each. MQTT lets a broker refuse control characters, and Mosquitto
 * closes the connection; a string of CloudEvents has none, but an attribute of Ackord may.
 */
const encodedMarker = 'ackord-encoded'

// Characters that MQTT forbids, or that a broker may refuse.
const refused = /[\p{Cc}\uFDD0-\uFDEF\uFFFE\uFFFF]|[\u{1FFFE}\u{1FFFF}\u{2FFFE}\u{2FFFF}]/u
const encodedCharacters = /[%\p{Cc}\uFDD0-\uFDEF\uFFFE\uFFFF\u{1FFFE}\u{1FFFF}\u{2FFFE}\u{2FFFF}]/gu

export type UserProperties = Readonly<Record<string, string | string[]>>

/**
 * The CloudEvents binding for MQTT, binary mode: each attribute is a user property with the attribute's name, without a prefix. The content type is a property of the message.
 * Throws for attributes that MQTT cannot carry.
 */
export function writeUserProperties(attributes: Attributes): Record<string, string | string[]> {
  const written: Record<string, string | string[]> = {}
  const encoded: string[] = []
  for (const name in attributes) {
    const attribute = attributes[name]
    if (attribute === undefined || (name === 'datacontenttype' && isContentType(attribute))) continue
    const value = attributeText(attribute).toWellFormed()
    const isEncoded = needsEncoding(name) || refused.test(value)
    const key = isEncoded ? encodeName(name) : name
    const text = isEncoded ? encode(value) : value
    if (Buffer.byteLength(key) > maxStringLength || Buffer.byteLength(text) > maxStringLength) throw tooLong(name)
    if (Object.hasOwn(written, key)) throw sameName(name)
    written[key] = text
    if (isEncoded) encoded.push(key)
  }
  if (encoded.length > 0) written[encodedMarker] = encoded
  return written
}

/** The attributes in the user properties of a message. */
export function readUserProperties(properties: UserProperties): Record<string, AttributeValue> {
  const attributes: Record<string, AttributeValue> = {}
  const encoded = new Set([properties[encodedMarker] ?? []].flat())
  for (const key of Object.keys(properties)) {
    const value = textOf(properties[key])
    if (key === '' || key === encodedMarker || value === undefined) continue
    if (encoded.has(key)) setAttribute(attributes, decode(key), decode(value))
    else setAttribute(attributes, key, value)
  }
  return attributes
}

/** The value of a user property. It may be repeated, which no attribute is: the first one counts. */
export function textOf(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : value?.[0]
}

/** Whether the value can be the content type of a message: a string that MQTT carries as it is. With that of a structured event, readers would look for the attributes in the data. */
export function isContentType(value: unknown): value is string {
  if (typeof value !== 'string' || isStructuredContentType(value)) return false
  return value.isWellFormed() && !refused.test(value) && Buffer.byteLength(value) <= maxStringLength
}

function needsEncoding(name: string): boolean {
  // The client copies messages property by property, which loses one of this name.
  return refused.test(name) || name === '__proto__' || name === encodedMarker || !name.isWellFormed()
}

function encodeName(name: string): string {
  const encoded = encode(name.toWellFormed())
  if (encoded !== name || !needsEncoding(name)) return encoded
  return `%${name.charCodeAt(0).toString(16)}${name.slice(1)}`
}

function encode(text: string): string {
  return text.replace(encodedCharacters, (character) =>
    [...Buffer.from(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  )
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function tooLong(name: string): AckordError {
  const text = `Attribute '${escapeText(name, 100)}' is longer than ${maxStringLength} bytes, which is the most that MQTT carries in a user property.`
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text, { retryable: false })
}

function sameName(name: string): AckordError {
  const text = `Attribute '${escapeText(name, 100)}' has the same user property as another attribute.`
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text, { retryable: false })
}
