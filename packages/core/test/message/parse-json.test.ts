import { expect, it } from 'vitest'
import { parseJson } from '../../src/message/json.ts'

it('reads what JSON.parse() reads', () => {
  expect(parseJson('{"a":[1,null,"x"]}')).toEqual({ a: [1, null, 'x'] })
})

it.each(['secret', '"secret', '{"a":secret}', '{"a":1,secret', '[1] secret at position 7', '{"a":1} secret', ''])(
  'quotes nothing of what it cannot read: %j',
  (text) => {
    let error: unknown
    try {
      parseJson(text)
    } catch (thrown) {
      error = thrown
    }
    expect(error).toBeInstanceOf(SyntaxError)
    expect(String(error)).toMatch(/^SyntaxError: The text is not JSON(?:; it goes wrong at position \d+)?\.$/)
    expect(error).not.toHaveProperty('cause')
  },
)
