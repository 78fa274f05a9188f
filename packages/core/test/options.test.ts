import { describe, expect, it } from 'vitest'
import { checkChoice, checkCount, checkDuration, checkFraction, checkFunction, checkName } from '../src/options.ts'
import { Router } from '../src/router/router.ts'
import type { RouterOptions } from '../src/router/router-options.ts'

describe('option checks', () => {
  it('return a valid value', () => {
    expect(checkDuration('d', 0)).toBe(0)
    expect(checkDuration('d', Infinity, { infinite: true })).toBe(Infinity)
    expect(checkCount('c', 3)).toBe(3)
    expect(checkCount('c', Infinity, { infinite: true })).toBe(Infinity)
    expect(checkFraction('f', 0.5)).toBe(0.5)
    expect(checkName('n', 'x')).toBe('x')
    expect(checkChoice('o', 'a', ['a', 'b'])).toBe('a')
  })

  it.each([
    [() => checkDuration('wait', -1), 'wait must be a number of milliseconds, 0 or more; it is -1.'],
    [() => checkDuration('wait', Number.NaN), 'wait must be a number of milliseconds, 0 or more; it is NaN.'],
    [() => checkDuration('wait', Infinity), 'wait must be a number of milliseconds, 0 or more; it is Infinity.'],
    [
      () => checkDuration('wait', '5' as unknown as number, { min: 1, infinite: true }),
      'wait must be a number of milliseconds, 1 or more, or Infinity; it is "5".',
    ],
    [() => checkCount('limit', 0), 'limit must be a whole number, 1 or more; it is 0.'],
    [() => checkCount('limit', 1.5), 'limit must be a whole number, 1 or more; it is 1.5.'],
    [() => checkFraction('jitter', 1.1), 'jitter must be a number from 0 to 1; it is 1.1.'],
    [() => checkName('topic', ''), 'topic must be a non-empty string; it is "".'],
    [() => checkName('topic', null as unknown as string), 'topic must be a non-empty string; it is null.'],
    [() => checkChoice('mode', 'c' as 'a', ['a', 'b' as 'a']), "mode must be one of 'a', 'b'; it is \"c\"."],
    [() => checkFunction('match', {}), 'match must be a function; it is a plain object.'],
  ])('report what the option must be and what it is: %#', (check, text) => {
    expect(check).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: text }))
  })

  it.each([
    { concurrency: 0 },
    { concurrency: Infinity },
    { buffer: -1 },
    { maxDeliveries: 0 },
    { processTimeout: 0 },
    { shutdownTimeout: -1 },
    { ackStrategy: 'always' },
    { onUnknownType: 'drop' },
    { orderingKey: 'subject' },
    { onError: 5 },
    { redeliveryDelay: 100 },
    { source: '' },
  ] as unknown as RouterOptions[])('reject a router with %o when it is created', (options) => {
    const [name = ''] = Object.keys(options)
    expect(() => new Router(options)).toThrow(
      expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
    )
  })
})
