import { expect, it } from 'vitest'
import { parseJson } from '../../src/message/json.ts'

it('parses what JSON.parse() parses', () => {
  expect(parseJson('{"a":[1,null,"x"]}')).toEqual({ a: [1, null, 'x'] })
})

it.each(['secret', '"secret', '{"a":secret}', '{"a":1,secret', '[1] secret at position 7', '{"a":1} secret', ''])(
  'quotes nothing of invalid JSON: %j',
  (text) => {
    let error: unknown
    try {
      parseJson(text)
    } catch (thrown) {
      error = thrown
    }
    expect(error).toBeInstanceOf(SyntaxError)
    expect(String(error)).toMatch(/^SyntaxError: The text is not valid JSON(?:: syntax error at position \d+)?\.$/)
    expect(error).not.toHaveProperty('cause')
  },
)
