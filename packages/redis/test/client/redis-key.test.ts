import { describe, expect, it } from 'vitest'
import { KeySpace, keySlot, redisKey } from '../../src/client/keys.ts'

describe('redisKey()', () => {
  it('puts the tag into braces and the parts behind it', () => {
    expect(redisKey('orders', 'order', 17, 5n)).toBe('{orders}:order:17:5')
  })

  it('keeps odd tags and parts apart: braces, colons, blanks and percent signs', () => {
    const odd = ['a', 'a:b', 'a%3Ab', 'a}b', 'a%7Db', '{a', '{a}', ' ', 'a b', '%', '%25', '訂單']
    const keys = new Set([...odd.flatMap((tag) => odd.map((part) => redisKey(tag, part))), redisKey('a', 'a', 'b'), redisKey('a', 'a', '')])
    expect(keys.size).toBe(odd.length ** 2 + 2)
  })

  it('puts all keys of a tag into one slot, whatever their parts', () => {
    for (const tag of ['orders', '{', 'a}b', '{}', ' ', '%7D', '訂單']) {
      const slots = new Set(['', '{x}', '}', 'order:1'].map((part) => keySlot(redisKey(tag, part))))
      expect([...slots], tag).toHaveLength(1)
    }
  })

  it('rejects an empty tag, which Redis ignores, and values that are not strings', () => {
    expect(() => redisKey('')).toThrow('must not be empty')
    expect(() => redisKey('a', undefined as never)).toThrow('must be a string')
    expect(() => redisKey(Number.NaN)).toThrow('must be a string')
  })
})

describe('KeySpace', () => {
  it('finds keys together by their slot behind the prefix of the client', () => {
    const plain = new KeySpace('', { checked: true })
    expect(plain.together('{a}:1', '{a}:2')).toBe(true)
    expect(plain.together('{a}:1', '{b}:2')).toBe(false)
    expect(plain.together('a', '{a}:2')).toBe(true)
    expect(plain.together(Buffer.from('{a}:1'), '{a}:2')).toBe(true)
    // With a whole tag in the prefix all keys share its slot; with half a tag, the braces of the key itself change meaning.
    expect(new KeySpace('{svc}:', { checked: true }).together('a', 'b')).toBe(true)
    const half = new KeySpace('x{', { checked: true })
    expect(half.together('a}1', 'a}2')).toBe(true)
    expect(half.together('{a}', 'a}')).toBe(false)
  })

  it('accepts all keys if slots are not checked', () => {
    expect(new KeySpace('', { checked: false }).together('a', 'b')).toBe(true)
  })

  it('finds a name in the slot of any key, also one without a tag', () => {
    const space = new KeySpace('', { checked: true })
    for (const key of ['{a}:1', 'plain', 'a}b', '{}', Buffer.from([0, 255, 123])]) {
      expect(space.slotOf(space.beside(key, 'name'))).toBe(space.slotOf(key))
    }
    const prefixed = new KeySpace('svc:', { checked: true })
    expect(prefixed.slotOf(prefixed.beside('plain', 'name'))).toBe(prefixed.slotOf('plain'))
  })
})
