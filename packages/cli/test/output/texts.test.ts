import { describe, expect, it } from 'vitest'
import { counted } from '../../src/output/text.ts'
import { wrapWords } from '../../src/output/wrap-words.ts'

describe('a number with a noun', () => {
  it.each([
    [counted(1, 'record'), '1 record'],
    [counted(0, 'record'), '0 records'],
    [counted(2, 'record is', 'records are'), '2 records are'],
    [counted(1, 'inbox entry', 'inbox entries'), '1 inbox entry'],
  ])('is %s', (text, expected) => {
    expect(text).toBe(expected)
  })
})

describe('a text that is wrapped', () => {
  it('has no line that is longer than the terminal is wide', () => {
    const text = 'The service is killed in the middle: some orders are committed and not acked.'
    expect(wrapWords(text, { columns: 30, first: '● ' })).toBe(
      '● The service is killed in the\n  middle: some orders are\n  committed and not acked.',
    )
  })

  it('keeps a long word in one piece', () => {
    expect(wrapWords('run docs/start/postgresql.md now', { columns: 12, first: '  ', rest: '    ' })).toBe(
      '  run\n    docs/start/postgresql.md\n    now',
    )
  })

  it('is left as it is without a width', () => {
    expect(wrapWords('a '.repeat(500).trim(), { columns: Infinity })).toBe('a '.repeat(500).trim())
  })
})
