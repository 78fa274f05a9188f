import { InvalidOptionError } from '@ackord/core'

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
