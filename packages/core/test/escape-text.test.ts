import fc from 'fast-check'
import { expect, it } from 'vitest'
import { escapeText } from '../src/escape-text.ts'

it('returns short and harmless text unchanged', () => {
  for (const text of ['', 'order.placed', 'naïve 中文 🎉', "quotes ' and \\ stay"]) expect(escapeText(text)).toBe(text)
})

it('escapes everything that could start a new line, move the cursor or change the direction of a text', () => {
  expect(escapeText('a\nb\r\tc')).toBe('a\\nb\\r\\tc')
  expect(escapeText('\u001b[2J\u0000\u0085\u2028\u2029\u202e')).toBe('\\u001b[2J\\u0000\\u0085\\u2028\\u2029\\u202e')
  expect(escapeText('half \ud83c')).toBe('half \\ud83c')
})

it('truncates long text with a mark, and never splits a character', () => {
  expect(escapeText('x'.repeat(900_000), 10)).toBe('xxxxxxxxxx… (900000 characters)')
  expect(escapeText('🎉🎉🎉', 3)).toBe('🎉… (6 characters)')
})

it('returns one well-formed line of limited length for any text', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), fc.integer({ min: 1, max: 100 }), (text, limit) => {
      const line = escapeText(text, limit)
      expect(line).not.toMatch(/[\p{Cc}\u2028\u2029]/u)
      expect(line.isWellFormed()).toBe(true)
      expect(line.length).toBeLessThanOrEqual(6 * limit + 30)
    }),
  )
})
