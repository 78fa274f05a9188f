import { describe, expect, it } from 'vitest'
import { type Column, tableLines } from '../../src/output/table.ts'
import { widthOf } from '../../src/output/text.ts'

interface Row {
  readonly id: string
  readonly key: string
  readonly count: number
  readonly error: string
}

const columns: readonly Column<Row>[] = [
  { heading: 'ID', cell: ({ id }) => id },
  { heading: 'KEY', cell: ({ key }) => key, cut: { rank: 2, min: 4 }, omit: 2 },
  { heading: 'COUNT', cell: ({ count }) => count },
  { heading: 'ERROR', cell: ({ error }) => error, cut: { rank: 1, min: 8 }, omit: 3 },
  { heading: 'NOTE', cell: ({ id }) => `${id} note`, omit: 1 },
]

const rows: readonly Row[] = [
  { id: '1', key: 'customer-1', count: 7, error: 'no route to host' },
  { id: '2222', key: 'c-2', count: 12, error: '' },
]

function table(width: number | undefined, shown: readonly Row[] = rows): readonly string[] {
  return tableLines(columns, shown, { width, heading: (text) => text })
}

describe('a table', () => {
  it('is as wide as its contents if it is not printed to a terminal', () => {
    expect(table(undefined)).toEqual([
      'ID    KEY         COUNT  ERROR             NOTE',
      '1     customer-1      7  no route to host  1 note',
      '2222  c-2            12                    2222 note',
    ])
  })

  it('loses optional columns, then the ends of cells, in the order of their ranks', () => {
    expect(table(52)).toEqual(table(undefined))
    expect(table(48)[1]).toBe('1     customer-1      7  no route to…  1 note')
    expect(table(40)[1]).toBe('1     custo…      7  no rout…  1 note')
    // Without NOTE there is room again.
    expect(table(35)[1]).toBe('1     customer-1      7  no route …')
    expect(table(30)[1]).toBe('1     custom…      7  no rout…')
    // Without KEY, too.
    expect(table(25)[1]).toBe('1         7  no route to…')
    // An id is never cut, even if the terminal is narrower than the ids.
    expect(table(5)).toEqual(['ID    COUNT', '1         7', '2222     12'])
  })

  it.each(Array.from({ length: 60 }, (_, index) => index + 11))('has no line that is longer than %i columns', (width) => {
    for (const line of table(width)) expect(widthOf(line)).toBeLessThanOrEqual(width)
  })

  it('omits a column that is empty, on a terminal', () => {
    const shown = rows.map((row) => ({ ...row, error: '' }))
    expect(table(80, shown)[0]).toBe('ID    KEY         COUNT  NOTE')
    expect(table(undefined, shown)[0]).toContain('ERROR')
  })

  it('stays aligned with wide characters', () => {
    const shown = [
      { id: '1', key: '注文する', count: 1, error: '' },
      { id: '2', key: '📦-👩‍👩‍👧', count: 1, error: '' },
      { id: '3', key: 'cafe\u0301', count: 1, error: '' },
    ]
    const before = table(undefined, shown).map((line) => widthOf(line.slice(0, line.search(/COUNT|1 {9}/))))
    expect(before.slice(1)).toEqual([18, 18, 18])
    for (const line of table(20, shown)) expect(widthOf(line)).toBeLessThanOrEqual(20)
  })

  it('colours a cell, and not the space around it', () => {
    const coloured: readonly Column<Row>[] = [
      { heading: 'KEY', cell: ({ key }) => key, cut: { rank: 1, min: 4 }, colour: (text, { id }) => (id === '1' ? `<${text}>` : text) },
      { heading: 'COUNT', cell: ({ count }) => count, colour: (text) => `<${text}>` },
    ]
    expect(tableLines(coloured, rows, { width: 13, heading: (text) => text })).toEqual([
      'KEY     COUNT',
      '<custo…>      <7>',
      'c-2        <12>',
    ])
  })
})
