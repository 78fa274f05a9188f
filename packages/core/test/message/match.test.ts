import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isAckordError } from '../../src/errors.ts'
import { type Matcher, match } from '../../src/message/match.ts'

const yes: Matcher = () => true
const no: Matcher = () => false

describe('match.like', () => {
  it.each([
    ['order.placed', 'order.placed', true],
    ['order.placed', 'order.placed2', false],
    ['order.placed', 'Order.placed', false],
    ['order.%', 'order.placed', true],
    ['order.%', 'order.', true],
    ['order.%', 'order', false],
    ['%.placed', 'order.placed', true],
    ['%order%', 'my.order.placed', true],
    ['%', '', true],
    ['%', 'anything\nat all', true],
    ['%%', 'x', true],
    ['', '', true],
    ['', 'x', false],
    ['_', 'x', true],
    ['_', '', false],
    ['_', 'xy', false],
    ['_%', '', false],
    ['%_', 'xyz', true],
    ['o_der', 'order', true],
    ['a%b%c', 'a1b2c', true],
    ['a%b%c', 'a1c2b', false],
    ['%ab', 'aab', true],
    ['%aab%', 'aaab', true],
    ['100\\%', '100%', true],
    ['100\\%', '1000', false],
    ['a\\_b', 'a_b', true],
    ['a\\_b', 'axb', false],
    ['a\\\\b', 'a\\b', true],
    ['a\\bc', 'abc', true],
    ['.*', '.*', true],
    ['.*', 'ab', false],
    ['(a|b)', 'a', false],
  ])('matches %j with %j: %s', (pattern, value, expected) => {
    expect(match.like(pattern, value)).toBe(expected)
  })

  it('counts characters, not code units', () => {
    expect(match.like('_', '🎵')).toBe(true)
    expect(match.like('__', '🎵')).toBe(false)
    expect(match.like('%🎵_', 'a🎵é')).toBe(true)
    expect(match.like('_', '\ud800')).toBe(true)
    expect(match.like('%\udfb5', '🎵')).toBe(false)
  })

  it('agrees with a naive reference for any pattern and value', () => {
    const character = fc.constantFrom('a', 'b', '%', '_', '\\', '🎵')
    const pattern = fc.string({ unit: character, maxLength: 9 }).filter((text) => !endsInEscape(text))
    const value = fc.string({ unit: character, maxLength: 9 })
    fc.assert(
      fc.property(pattern, value, (left, right) => {
        expect(match.like(left, right)).toBe(naiveLike([...left], [...right]))
      }),
      { numRuns: 3000 },
    )
  })

  it('stays fast on a pattern that makes regular expressions explode', () => {
    const pattern = `${'%a'.repeat(200)}%b`
    const value = 'a'.repeat(20_000)
    const start = performance.now()
    expect(match.like(pattern, value)).toBe(false)
    expect(match.like(`%${'_'.repeat(100)}b`, value)).toBe(false)
    expect(performance.now() - start).toBeLessThan(2000)
  })

  it('rejects a pattern that ends with an escape without a character', () => {
    expect(() => match.like('a\\', 'a')).toThrow('ends with a backslash')
    expect(() => match.types('a\\')).toThrow("The pattern 'a\\' given to match.types()")
  })
})

describe('match.types, sources and subject', () => {
  it('matches if one of the patterns matches', () => {
    const matcher = match.types('order.%', 'invoice.paid')
    expect(matcher({ type: 'order.placed' })).toBe(true)
    expect(matcher({ type: 'invoice.paid' })).toBe(true)
    expect(matcher({ type: 'invoice.sent' })).toBe(false)
  })

  it('checks its own attribute only', () => {
    const attributes = { type: 't', source: '/s', subject: 'j' }
    expect(match.sources('/s')(attributes)).toBe(true)
    expect(match.sources('t')(attributes)).toBe(false)
    expect(match.subject('j')(attributes)).toBe(true)
    expect(match.subject('t')(attributes)).toBe(false)
  })

  it('never matches without patterns', () => {
    expect(match.types()({ type: 'a' })).toBe(false)
    expect(match.sources()({})).toBe(false)
    expect(match.subject()({})).toBe(false)
  })

  it('treats a missing attribute as the empty string', () => {
    expect(match.types('')({})).toBe(true)
    expect(match.sources('%')({})).toBe(true)
    expect(match.subject('_%')({})).toBe(false)
  })

  it.each([5, undefined, null, /a/])('rejects the pattern %s when it is created', (pattern) => {
    const matchers = [
      () => match.types(pattern as never),
      () => match.sources('a', pattern as never),
      () => match.subject(pattern as never),
      () => match.extension('a', pattern as never),
      () => match.like(pattern as never, 'a'),
    ]
    for (const make of matchers) {
      expect(make).toThrow(expect.toSatisfy((error) => isAckordError(error, 'ACKORD_INVALID_OPTION')))
    }
  })
})

describe('match.extension', () => {
  it('checks presence without patterns, also of an empty value', () => {
    const matcher = match.extension('tenant')
    expect(matcher({ tenant: 'a' })).toBe(true)
    expect(matcher({ tenant: '' })).toBe(true)
    expect(matcher({ tenant: undefined })).toBe(false)
    expect(matcher({})).toBe(false)
  })

  it('compares the CloudEvents string of values that are not strings', () => {
    const attributes = { n: 42, b: true, t: new Date('2026-01-02T03:04:05.678Z'), x: new Uint8Array([1, 2]) }
    expect(match.extension('n', '4_')(attributes)).toBe(true)
    expect(match.extension('b', 'true')(attributes)).toBe(true)
    expect(match.extension('t', '2026-01-02T%.678Z')(attributes)).toBe(true)
    expect(match.extension('x', 'AQI=')(attributes)).toBe(true)
    expect(match.extension('t', '')({ t: new Date(Number.NaN) })).toBe(true)
  })

  it('does not find inherited properties', () => {
    expect(match.extension('constructor')({})).toBe(false)
    expect(match.extension('toString', '_%')({})).toBe(false)
  })

  it('requires a name', () => {
    expect(() => match.extension('')).toThrow('match.extension()')
  })
})

describe('match.all, any and not', () => {
  it('follows the truth tables', () => {
    expect(match.all(yes, yes)({})).toBe(true)
    expect(match.all(yes, no)({})).toBe(false)
    expect(match.any(no, yes)({})).toBe(true)
    expect(match.any(no, no)({})).toBe(false)
    expect(match.not(yes)({})).toBe(false)
    expect(match.not(no)({})).toBe(true)
  })

  it('treats no matchers as all and as not any', () => {
    expect(match.all()({})).toBe(true)
    expect(match.any()({})).toBe(false)
  })

  it('nests', () => {
    const matcher = match.all(match.types('order.%'), match.any(match.sources('/eu/%'), match.not(match.extension('tenant'))))
    expect(matcher({ type: 'order.placed', source: '/eu/shop', tenant: 'a' })).toBe(true)
    expect(matcher({ type: 'order.placed', source: '/us/shop' })).toBe(true)
    expect(matcher({ type: 'order.placed', source: '/us/shop', tenant: 'a' })).toBe(false)
    expect(matcher({ type: 'invoice.paid', source: '/eu/shop' })).toBe(false)
  })

  it('evaluates no more matchers than needed', () => {
    const asked: string[] = []
    const named = (name: string, answer: boolean) => () => {
      asked.push(name)
      return answer
    }
    match.all(named('a', true), named('b', false), named('c', true))({})
    match.any(named('d', true), named('e', true))({})
    expect(asked).toEqual(['a', 'b', 'd'])
  })

  it('rejects a value that is not a matcher', () => {
    expect(() => match.all('order.%' as never)).toThrow('A matcher given to match.all()')
    expect(() => match.any(undefined as never)).toThrow('A matcher given to match.any()')
    expect(() => match.not(undefined as never)).toThrow('A matcher given to match.not()')
  })
})

function endsInEscape(pattern: string): boolean {
  const tail = /\\*$/.exec(pattern)?.[0] ?? ''
  return tail.length % 2 === 1
}

function naiveLike(pattern: readonly string[], value: readonly string[]): boolean {
  const [head, ...rest] = pattern
  if (head === undefined) return value.length === 0
  if (head === '%') return value.some((_, index) => naiveLike(rest, value.slice(index))) || naiveLike(rest, [])
  const [first, ...others] = value
  if (first === undefined) return false
  if (head === '_') return naiveLike(rest, others)
  if (head === '\\') return rest[0] === first && naiveLike(rest.slice(1), others)
  return head === first && naiveLike(rest, others)
}
