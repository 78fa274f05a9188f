/** Derives a message type from a class name. */
export type Naming = (name: string) => string

/** `OrderPlaced` stays `OrderPlaced`. */
export function asIs(name: string): string {
  return name
}

/** `OrderPlaced` becomes `order.placed`. */
export function dotCase(name: string): string {
  return joinWords(name, '.')
}

/** `OrderPlaced` becomes `order-placed`. */
export function kebabCase(name: string): string {
  return joinWords(name, '-')
}

/** `OrderPlaced` becomes `order_placed`. */
export function snakeCase(name: string): string {
  return joinWords(name, '_')
}

// A capital starts a word after a small letter, and after another capital when a small letter follows: HTTP|Request.
const wordStart = /(?<=\p{Ll})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu

function joinWords(name: string, separator: string): string {
  return name.replace(wordStart, separator).toLowerCase()
}
