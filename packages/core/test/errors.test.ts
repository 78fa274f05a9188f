import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  AckordError,
  causesOf,
  describeValue,
  errorCodes,
  InvalidOptionError,
  isAckordError,
  RejectError,
  TransactionRequiredError,
  toError,
} from '../src/errors.ts'

describe('errors', () => {
  it('have a heading in docs/errors.md for each code, and no other', () => {
    const docs = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8')
    const headings = [...docs.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)
    expect(headings).toEqual([...errorCodes])
    expect([...errorCodes]).toEqual([...errorCodes].sort((a, b) => (a.replaceAll('_', ' ') < b.replaceAll('_', ' ') ? -1 : 1)))
  })

  it('carry code, cause and name, and are retryable by default', () => {
    const cause = new Error('below')
    const error = new AckordError('ACKORD_NACKED', 'text', { cause })
    expect(error).toMatchObject({ name: 'AckordError', code: 'ACKORD_NACKED', retryable: true, message: 'text', cause })
    expect('cause' in new AckordError('ACKORD_NACKED', 'text')).toBe(false)
    expect(new RejectError('no', { cause })).toMatchObject({ name: 'RejectError', retryable: false, cause })
    expect(new InvalidOptionError('limit', 'must be 1')).toMatchObject({ name: 'InvalidOptionError', message: 'limit must be 1' })
    expect(new TransactionRequiredError('afterCommit()')).toMatchObject({ name: 'TransactionRequiredError', retryable: true })
    expect(String(error)).toBe('AckordError: text')
  })

  it('are recognised by their code, also those of another copy of the package', () => {
    const foreign = Object.assign(new Error('text'), { code: 'ACKORD_NO_HANDLER' })
    expect(isAckordError(foreign)).toBe(true)
    expect(isAckordError(foreign, 'ACKORD_NO_HANDLER')).toBe(true)
    expect(isAckordError(foreign, 'ACKORD_NACKED')).toBe(false)
    expect(isAckordError(Object.assign(new Error('text'), { code: 'ECONNRESET' }))).toBe(false)
    for (const other of [undefined, null, 'ACKORD_NACKED', { code: 'ACKORD_NACKED' }, new Error('text')])
      expect(isAckordError(other)).toBe(false)
  })

  it('wrap thrown values that are not errors', () => {
    const error = new Error('text')
    expect(toError(error)).toBe(error)
    for (const thrown of ['text', undefined, null, 5, { code: 1 }]) {
      expect(toError(thrown)).toMatchObject({ code: 'ACKORD_NOT_AN_ERROR', cause: thrown })
    }
  })

  it('name the kind of a value, never its content', () => {
    class Order {}
    const kinds = [
      null,
      undefined,
      'secret',
      5,
      [1],
      { secret: 1 },
      new Order(),
      Object.create(null),
      { constructor: { name: 'secret' } },
      () => 'secret',
    ].map(describeValue)
    expect(kinds).toEqual([
      'null',
      'undefined',
      'a string',
      'a number',
      'an array',
      'a plain object',
      'an instance of Order',
      'a plain object',
      'a plain object',
      'a function',
    ])
  })
})

describe('causesOf', () => {
  it('yields the error and its causes, outermost first', () => {
    const inner = new Error('inner', { cause: 'text' })
    const outer = new Error('outer', { cause: inner })
    expect([...causesOf(outer)]).toEqual([outer, inner, 'text'])
    expect([...causesOf(undefined)]).toEqual([])
  })

  it('yields the errors of an AggregateError before its cause, only if they are requested', () => {
    const [first, second, cause] = [new Error('first', { cause: 'why' }), new Error('second'), new Error('cause')]
    const all = new AggregateError([first, second], 'several', { cause })
    expect([...causesOf(all, { aggregated: true })]).toEqual([all, first, 'why', second, cause])
    expect([...causesOf(all)]).toEqual([all, cause])
  })

  it('ends where causes form a cycle', () => {
    const [one, other] = [new Error('one'), new Error('other')]
    one.cause = other
    other.cause = one
    expect([...causesOf(one)]).toEqual([one, other])
  })
})
