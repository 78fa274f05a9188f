import { describe, expect, it } from 'vitest'
import { failureArguments, readFailure } from '../../src/outbox/failure-field.ts'

describe('the arguments of a failure', () => {
  it('have no NUL, which separates them in the field', () => {
    expect(failureArguments('one\0two', 'a\0b')).toEqual(['onetwo', 'ab', 'onetwo'])
  })

  it('have an empty cause if it is unknown', () => {
    expect(failureArguments('refused', undefined)).toEqual(['refused', '', 'refused'])
  })

  it('are cut, but not within a character', () => {
    const [error, cause, line] = failureArguments(`${'x'.repeat(9_999)}🚚`, `${'y'.repeat(199)}🚚`)
    expect(error).toBe('x'.repeat(9_999))
    expect(cause).toBe('y'.repeat(199))
    expect(line.length).toBeLessThan(400)
  })
})

describe('the field of a record', () => {
  it('that has not failed is empty', () => {
    const nothing = { lastError: undefined, cause: undefined, history: undefined }
    for (const field of [null, undefined, false]) expect(readFailure(field)).toEqual(nothing)
  })

  it('that an older version wrote has an error alone', () => {
    expect(readFailure(Buffer.from('refused'))).toEqual({ lastError: 'refused', cause: undefined, history: undefined })
  })

  it('has error, cause and history', () => {
    expect(readFailure('refused\0\x001700000000000 refused')).toEqual({
      lastError: 'refused',
      cause: undefined,
      history: '1700000000000 refused',
    })
    expect(readFailure('refused by x\0refused\0')).toEqual({ lastError: 'refused by x', cause: 'refused', history: '' })
  })
})
