/** Characters that are invisible, break lines or reverse the direction of writing, and surrogates without their other half. */
const invisible = /[\p{Cc}\p{Cs}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu

/** Replaces invisible characters by `\u…`. Contents of records must not look like something that they are not. */
export function visibleText(text: string): string {
  return text.replaceAll(invisible, escaped)
}

/** The same for texts of several lines: keeps line breaks and tabs. */
export function visibleLines(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replaceAll(invisible, (character) => (character === '\n' || character === '\t' ? character : escaped(character)))
}

/** By UTF-16 code units, as JSON and JavaScript write them. */
function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`).join('')
}
