import { describe, expect, it } from 'vitest'
import { deepSqlStateOf, endsConnection, refusedCommit, sqlStateOf } from '../../src/postgres/errors.ts'

function withCode(code: unknown, cause?: unknown): Error {
  return Object.assign(new Error('driver error', { cause }), { code })
}

describe('the SQLSTATE of an error', () => {
  it('is the five-character code that the server sent', () => {
    expect(sqlStateOf(withCode('23505'))).toBe('23505')
    for (const other of ['ECONNRESET', 'ACKORD_NACKED', 23505, undefined]) expect(sqlStateOf(withCode(other))).toBeUndefined()
    expect(sqlStateOf('23505')).toBeUndefined()
  })

  it('is found behind errors that wrap it, and survives a cycle of causes', () => {
    expect(deepSqlStateOf(new Error('saving', { cause: withCode('ACKORD_NACKED', withCode('40001')) }))).toBe('40001')
    const circle = new Error('circle')
    circle.cause = circle
    expect(deepSqlStateOf(circle)).toBeUndefined()
  })

  it('tells whether a failed COMMIT certainly committed nothing', () => {
    for (const state of ['23505', '40001', '40P01', '23503', '25P02', '57014']) expect(refusedCommit(withCode(state))).toBe(true)
    for (const state of ['57P01', '08006', '40003', '58030', 'XX000', 'ECONNRESET', undefined])
      expect(refusedCommit(withCode(state))).toBe(false)
    expect([endsConnection(withCode('57P01')), endsConnection(withCode('23505'))]).toEqual([true, false])
  })
})
