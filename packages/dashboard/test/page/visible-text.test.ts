import { describe, expect, it } from 'vitest'
import { visibleLines, visibleText } from '../../page/text/visible-text.ts'

describe('visibleText()', () => {
  it.each([
    ['right-to-left override', 'a\u202eb', 'a\\u202eb'],
    ['an isolate', '\u2066x\u2069', '\\u2066x\\u2069'],
    ['a zero-width space and a mark', '\u200b\u200f', '\\u200b\\u200f'],
    ['a byte order mark', '\ufeffx', '\\ufeffx'],
    ['C0 and C1 control characters', '\u0000\u001b[31m\u0085', '\\u0000\\u001b[31m\\u0085'],
    ['line breaks', 'a\r\nb\tc\u2028d', 'a\\u000d\\u000ab\\u0009c\\u2028d'],
    ['a tag character, as a pair of surrogates', '\u{e0041}', '\\udb40\\udc41'],
    ['half of a surrogate pair', '\ud800x', '\\ud800x'],
  ])('escapes %s', (_what, text, shown) => {
    expect(visibleText(text)).toBe(shown)
  })

  it('leaves letters of all scripts, emoji and markup as they are', () => {
    const text = '<b>Größe</b> مرحبا 東京 🎉 é'
    expect(visibleText(text)).toBe(text)
  })
})

describe('visibleLines()', () => {
  it('keeps line breaks and tabs, and escapes the rest', () => {
    expect(visibleLines('a\r\n\tb\u202e\rc')).toBe('a\n\tb\\u202e\\u000dc')
  })
})
