import { percentDecode, percentEncode } from '@ackord/core/broker'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { encodeName } from '../src/headers.ts'

it('a value is sent as visible ASCII, and returned unchanged', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(percentEncode(text)).toMatch(/^[!#$&-~%]*$/)
      expect(percentDecode(percentEncode(text))).toBe(text)
    }),
  )
})

it('a name contains no colon either', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (name) => {
      expect(encodeName(name)).not.toMatch(/[:\s]/)
      expect(percentDecode(encodeName(name))).toBe(name)
    }),
  )
})

it.each([
  ['Euro € 😀', 'Euro%20%E2%82%AC%20%F0%9F%98%80'],
  ['100%', '100%25'],
  ['"quoted"', '%22quoted%22'],
  ['/orders?a=b', '/orders?a=b'],
])('%s is written as the binding says', (text, encoded) => {
  expect(percentEncode(text)).toBe(encoded)
})

it('leaves invalid percent-encoding as it is', () => {
  expect(percentDecode('100% of %zz and %FF')).toBe('100% of %zz and %FF')
})
