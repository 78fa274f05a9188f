import { describe, expect, it } from 'vitest'
import { compactJson, indentedJson, indentJson, jsonProblem } from '../../page/text/json-text.ts'

describe('indentJson()', () => {
  it('indents as JSON.stringify() does', () => {
    const value = { a: [1, -2.5e3, true, null, 'x, {y}: [z] "\\'], b: {}, c: [], d: { e: [[{}]] }, 'f"g': '' }
    expect(indentedJson(JSON.stringify(value))).toBe(JSON.stringify(value, undefined, 2))
    expect(indentedJson(JSON.stringify(value, undefined, 7))).toBe(JSON.stringify(value, undefined, 2))
  })

  it('keeps digits, order and duplicates that JSON.parse() would lose', () => {
    expect(indentedJson('{"b":12345678901234567890,"a":1.0,"b":2}')).toBe('{\n  "b": 12345678901234567890,\n  "a": 1.0,\n  "b": 2\n}')
  })

  it('indents a text that was cut off', () => {
    expect(indentedJson('{"a":{"b":[1,"cut o')).toBe('{\n  "a": {\n    "b": [\n      1,\n      "cut o')
  })

  it('tells names, strings and other values apart', () => {
    const kinds = indentJson('{"a" : "b", "c": 1}').filter(({ kind }) => kind !== 'mark')
    expect(kinds).toEqual([
      { kind: 'name', text: '"a"' },
      { kind: 'string', text: '"b"' },
      { kind: 'name', text: '"c"' },
      { kind: 'literal', text: '1' },
    ])
  })
})

describe('compactJson()', () => {
  it('removes only the spaces between tokens', () => {
    expect(compactJson('{\n  "a b": [1 , "x  y"],\n "n": 10.00 }\n')).toBe('{"a b":[1,"x  y"],"n":10.00}')
  })
})

describe('jsonProblem()', () => {
  it('says why a text is not JSON', () => {
    expect(jsonProblem('{"a": 1}')).toBeUndefined()
    expect(jsonProblem('{a: 1}')).toMatch(/JSON/)
  })
})
