import { expect, it } from 'vitest'
import { AckordError, RejectError } from '../../src/errors.ts'
import { type ErrorKind, retryExcept, retryOn } from '../../src/middleware/retry.ts'

class Busy extends Error {}
class VeryBusy extends Busy {}
const reset = Object.assign(new Error('reset'), { code: 'ECONNRESET' })
const open = new AckordError('ACKORD_CIRCUIT_OPEN', 'open')

it.each<[string, unknown, ErrorKind[], boolean]>([
  ['a class', new Busy(), [Busy], true],
  ['a class it extends', new VeryBusy(), [Busy], true],
  ['another class', new Error('other'), [Busy], false],
  ['a code of ours', open, ['ACKORD_CIRCUIT_OPEN'], true],
  ['a code of a driver', reset, ['ECONNRESET'], true],
  ['another code', reset, ['ECONNREFUSED'], false],
  ['one of several kinds', reset, [Busy, 'ECONNRESET'], true],
  ['a cause', new Error('outer', { cause: new Error('middle', { cause: reset }) }), ['ECONNRESET'], true],
  ['one of several failures', new AggregateError([new Error('one'), new Busy()]), [Busy], true],
  ['a value that is not an error', 'ECONNRESET', ['ECONNRESET'], false],
  ['nothing', undefined, [Busy], false],
])('recognises %s', (_title, error, kinds, matches) => {
  expect(retryOn(...kinds)(error)).toBe(matches)
  expect(retryExcept(...kinds)(error)).toBe(!matches)
})

it('ends where causes form a cycle', () => {
  const error: Error = new Error('round')
  error.cause = error
  expect(retryOn(Busy)(error)).toBe(false)
  expect(retryOn(Error)(error)).toBe(true)
})

it('accepts classes with other constructors', () => {
  expect(retryExcept(RejectError)(new RejectError('no'))).toBe(false)
})

it('rejects an empty list, which would be ambiguous, and values that are neither codes nor error classes', () => {
  expect(() => retryOn()).toThrow('retryOn() requires at least one')
  expect(() => retryExcept()).toThrow('retryExcept() requires at least one')
  expect(() => retryOn('')).toThrow('retryOn() accepts only error codes')
})
