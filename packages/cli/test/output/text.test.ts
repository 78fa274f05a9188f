import { describe, expect, it } from 'vitest'
import { counted, printable, truncate, widthOf } from '../../src/output/text.ts'
import { formatDuration } from '../../src/settings/duration.ts'

describe('the width of a text', () => {
  it.each([
    ['', 0],
    ['orders', 6],
    ['ürün', 4],
    ['e\u0301te\u0301', 3],
    ['注文', 4],
    ['ｆｕｌｌ', 8],
    ['주문', 4],
    ['カナ。', 6],
    ['ｶﾅ', 2],
    ['𠮷野家', 6],
    ['📦', 2],
    ['📦📦 ok', 7],
    ['👩‍👩‍👧', 2],
    ['🇨🇭', 2],
    ['❤️', 2],
    ['©', 1],
    ['#1', 2],
    ['→ …', 3],
    ['a\u200bb', 2],
  ])('%j takes the columns of its characters', (text, columns) => {
    expect(widthOf(text)).toBe(columns)
  })

  it('does not include colours', () => {
    expect(widthOf('\u001b[33m2\u001b[39m records')).toBe(9)
  })
})

describe('a text that is too wide', () => {
  it.each([
    ['orders', 6, 'orders'],
    ['orders', 5, 'orde…'],
    ['orders', 1, '…'],
    ['注文する', 8, '注文する'],
    ['注文する', 7, '注文す…'],
    ['注文する', 6, '注文…'],
    ['a👩‍👩‍👧b👩‍👩‍👧', 5, 'a👩‍👩‍👧b…'],
    ['e\u0301e\u0301e\u0301', 2, 'e\u0301…'],
  ])('%j in %i columns is %j', (text, columns, expected) => {
    expect(truncate(text, columns)).toBe(expected)
  })

  it('keeps its colours, and their ends', () => {
    expect(truncate('\u001b[31mrefused\u001b[39m by \u001b[1mhost\u001b[22m', 4)).toBe('\u001b[31mref…\u001b[39m\u001b[1m\u001b[22m')
  })
})

describe('user data', () => {
  it('cannot control the terminal, or reorder its line', () => {
    expect(printable('a\u001b[2Jb\nc\u202ed\u2028\u0085')).toBe('a\\x1b[2Jb\\x0ac\\u202ed\\u2028\\x85')
  })
})

describe('numbers in words', () => {
  it('have a singular', () => {
    expect([0, 1, 2].map((count) => counted(count, 'record is', 'records are'))).toEqual(['0 records are', '1 record is', '2 records are'])
  })

  it.each([
    [12, '12 ms'],
    [1000, '1 s'],
    [180_000, '3 min'],
    [200_000, '3 min 20 s'],
    [7_260_000, '2 h 1 min'],
    [90_000_000, '1 d 1 h'],
  ])('%i ms is %s', (duration, expected) => {
    expect(formatDuration(duration)).toBe(expected)
  })
})
