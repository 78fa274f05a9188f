import { type AttributeValue, InvalidOptionError } from '@ackord/core'
import { attributeText, type HeaderCodec, headerCodec, percentDecode, percentEncode } from '@ackord/core/broker'

/**
 * The CloudEvents binding for NATS, which encodes values as the one for HTTP does. Names are encoded in the same way, and their colons too. Half of a surrogate pair
 * becomes a replacement character.
 */
export const attributeHeaders: HeaderCodec<string> = headerCodec<string>({
  prefix: 'ce-',
  encodeName,
  decodeName: percentDecode,
  encodeValue,
  decodeValue: percentDecode,
})

export function encodeName(name: string): string {
  return percentEncode(name.toWellFormed()).replaceAll(':', '%3A')
}

function encodeValue(value: AttributeValue): string {
  return percentEncode(attributeText(value).toWellFormed())
}

/** Checks a subject that can be published to: tokens separated by dots, without wildcards. */
export function checkSubject(option: string, subject: unknown): string {
  if (typeof subject === 'string' && /^[^\s.*>]+(\.[^\s.*>]+)*$/.test(subject)) return subject
  throw new InvalidOptionError(
    option,
    `must be a subject such as 'orders.placed', without spaces and wildcards; it is ${JSON.stringify(subject)}.`,
  )
}

/** Checks the name of a stream or consumer, which is a token of a subject. */
export function checkToken(option: string, name: unknown): string {
  if (typeof name === 'string' && /^[^\s.*>/\\]+$/.test(name)) return name
  throw new InvalidOptionError(option, `must be a name without dots, spaces, wildcards and slashes; it is ${JSON.stringify(name)}.`)
}
