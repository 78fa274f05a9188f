import { stripVTControlCharacters } from 'node:util'

/** Characters that move the cursor, break lines or reverse the direction of writing. */
const unprintable = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** Record contents are user data: they must not control the terminal, nor move the rest of their line. */
export function printable(text: string): string {
  return text.replaceAll(unprintable, (character) => {
    const code = character.charCodeAt(0).toString(16)
    return code.length > 2 ? `\\u${code.padStart(4, '0')}` : `\\x${code.padStart(2, '0')}`
  })
}

export function onOneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ')
}

export function instant(milliseconds: number | undefined): string | undefined {
  return milliseconds === undefined ? undefined : new Date(milliseconds).toISOString()
}

/** An instant, to the second. */
export function toSeconds(milliseconds: number): string {
  return new Date(milliseconds).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** `1 record`, `2 records`. */
export function counted(amount: number, noun: string, plural = `${noun}s`): string {
  return `${amount} ${amount === 1 ? noun : plural}`
}

/** Characters that take one column each. */
const narrow = /^[\x20-\x7e]*$/

/** Combining marks and joiners take no column of their own. */
const invisible = /^[\p{Mn}\p{Me}\p{Cf}]+$/u

/** Emoji, and the characters that Unicode calls wide or fullwidth (UAX #11): CJK, Hangul, kana, Yi and their punctuation. */
const wide =
  /^(?:\p{Emoji_Presentation}|\p{Regional_Indicator}{2}|\p{Emoji}\ufe0f|[\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1aff0}-\u{1b2ff}\u{1f200}-\u{1f265}\u{20000}-\u{3fffd}])/u

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

/** The number of columns that a text takes on a terminal. Colours take none. */
export function widthOf(text: string): number {
  if (narrow.test(text)) return text.length
  let width = 0
  for (const { segment } of graphemes.segment(stripVTControlCharacters(text))) width += widthOfGrapheme(segment)
  return width
}

function widthOfGrapheme(grapheme: string): number {
  if (invisible.test(grapheme)) return 0
  return wide.test(grapheme) ? 2 : 1
}

/** A sequence that sets a colour. */
const colour = /(\p{Cc}\[[\d;]*m)/u

/** The beginning of a text, with an ellipsis, if it takes more columns than this. Its colours are kept, with their ends. */
export function truncate(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text
  let [shown, width] = ['', 0]
  for (const part of text.split(colour)) {
    if (colour.test(part)) {
      shown += part
      continue
    }
    for (const { segment } of graphemes.segment(part)) {
      if (width >= columns) break
      const next = width + widthOfGrapheme(segment)
      // The last column is for the ellipsis.
      shown += next < columns ? segment : '…'
      width = Math.min(next, columns)
    }
  }
  return shown
}
