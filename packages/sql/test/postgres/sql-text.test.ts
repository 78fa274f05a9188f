import { expect, it } from 'vitest'
import { withArrayLiterals } from '../../src/postgres/sql-text.ts'

it('formats arrays like PostgreSQL, and leaves other values unchanged', () => {
  const bytes = Buffer.from('x')
  expect(withArrayLiterals([1, null, 'a', bytes])).toEqual([1, null, 'a', bytes])
  const texts = ['', 'NULL', 'a "b"', 'c:\\d', 'e,f', '{g}', ' h ', "i'j", 'ü\n', null]
  expect(withArrayLiterals([[], texts, [1.5, null], ['9007199254740993']])).toEqual([
    '{}',
    `{"","NULL","a \\"b\\"","c:\\\\d","e,f","{g}"," h ","i'j","ü\n",NULL}`,
    '{"1.5",NULL}',
    '{"9007199254740993"}',
  ])
})
