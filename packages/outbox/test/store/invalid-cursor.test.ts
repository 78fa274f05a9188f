import { expect, it } from 'vitest'
import { invalidCursor } from '../../src/store/record-checks.ts'

it('names the option, and shows what it is', () => {
  expect(invalidCursor('a "b"')).toMatchObject({
    code: 'ACKORD_INVALID_OPTION',
    message: 'after must be the cursor of an earlier page, or left out; it is "a \\"b\\"".',
  })
})
