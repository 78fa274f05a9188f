import { expect, it } from 'vitest'
import { invalidCursor } from '../../src/store/record-checks.ts'

it('names the option, and shows its value', () => {
  expect(invalidCursor('a "b"')).toMatchObject({
    code: 'ACKORD_INVALID_OPTION',
    message: 'after is an invalid cursor: it must be the `next` of an earlier page, or omitted; it is "a \\"b\\"".',
  })
})
