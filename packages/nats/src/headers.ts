import { InvalidOptionError } from '@ackord/core'

/**
 * A text as a header carries it, by the rule of the CloudEvents binding for HTTP, which the one for NATS takes over: all but visible ASCII is
 * percent-encoded, as are spaces, quotes and percent signs. Names are written in the same way, and without colons.
 */
export function encodeHeader(text: string): string {
  return needsEncoding.test(text) ? text.replace(encodedInValues, percentEncoded) : text
}

export function encodeName(name: string): string {
  return name.replace(encodedInNames, percentEncoded)
}

/** What is no percent-encoding of a text is left as it is. */
export function decodeHeader(text: string): string {
  return text.replace(/(?:%[0-9A-Fa-f]{2})+/g, (encoded) => {
    try {
      return decodeURIComponent(encoded)
    } catch {
      return encoded
    }
  })
}

const needsEncoding = /[^!#$&-~]/
// Whole characters: half of a pair has no UTF-8.
const encodedInValues = /[^!#$&-~]/gu
const encodedInNames = /[^!#$&-9;-~]/gu

function percentEncoded(character: string): string {
  const bytes = Buffer.from(character)
  return Array.from(bytes, (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}

/** A subject that can be published to: tokens with dots between them, no wildcards. */
export function checkSubject(option: string, subject: unknown): string {
  if (typeof subject === 'string' && /^[^\s.*>]+(\.[^\s.*>]+)*$/.test(subject)) return subject
  throw new InvalidOptionError(
    option,
    `must be a subject such as 'orders.placed', without spaces and wildcards; it is ${JSON.stringify(subject)}.`,
  )
}

/** The name of a stream or consumer, which is a token of a subject. */
export function checkToken(option: string, name: unknown): string {
  if (typeof name === 'string' && /^[^\s.*>/\\]+$/.test(name)) return name
  throw new InvalidOptionError(option, `must be a name without dots, spaces, wildcards and slashes; it is ${JSON.stringify(name)}.`)
}
