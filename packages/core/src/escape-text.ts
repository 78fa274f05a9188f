// Control characters, line and paragraph separators, characters that change the direction of a text, and halves of surrogate pairs.
const unsafe = /[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u
const allUnsafe = new RegExp(unsafe, 'gu')

const shortForms: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/**
 * Makes an external text safe to quote in a log line or an error: at most `limit` UTF-16 code units of it, with a mark where it was truncated, and on
 * one line. `length` is that of the whole text, where only its beginning is passed. Never splits a surrogate pair. Short and harmless text is
 * returned unchanged.
 */
export function escapeText(text: string, limit: number = 200, length: number = text.length): string {
  if (length > limit) return `${escaped(wholeCharacters(text, limit))}… (${length} characters)`
  return unsafe.test(text) ? escaped(text) : text
}

/** The beginning of a text, at most `limit` UTF-16 code units, without half of a surrogate pair at its end. */
function wholeCharacters(text: string, limit: number): string {
  const end = text.length > limit && /[\ud800-\udbff]/.test(text.charAt(limit - 1)) ? limit - 1 : limit
  return text.slice(0, end)
}

function escaped(text: string): string {
  return text.replace(allUnsafe, (character) => shortForms[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
