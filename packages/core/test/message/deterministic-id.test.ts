import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { deterministicIds } from '../../src/message/output-ids.ts'

describe('deterministic ids', () => {
  it('are the same for the same consumer, source, id, place and type, in this version and the next', () => {
    const ids = deterministicIds('orders', '/shop', 'm-1')
    // Pinned: a change would give the outputs of a redelivered message new ids after a deployment.
    expect(ids('order.placed')).toBe(expected(['orders', '/shop', 'm-1', 0, 'order.placed']))
    expect(ids('order.paid')).toBe(expected(['orders', '/shop', 'm-1', 1, 'order.paid']))
    expect(deterministicIds('orders', '/shop', 'm-1')('order.placed')).toBe(expected(['orders', '/shop', 'm-1', 0, 'order.placed']))
  })

  it('are the same by the standard for names of any length and alphabet', () => {
    for (const id of ['', 'ключ', '😀'.repeat(80), 'x'.repeat(300), 'x'.repeat(5000), '\ud800'.repeat(320)])
      expect(deterministicIds('orders', '/shop', id)('t')).toBe(expected(['orders', '/shop', id, 0, 't']))
  })

  it('differ in each of them, also where plain joining would not', () => {
    const second = deterministicIds('a', 'b', 'c')
    const ids = [
      second('t'),
      second('t'),
      deterministicIds('ab', '', 'c')('t'),
      deterministicIds('a', 'bc', '')('t'),
      deterministicIds('a', 'b', 'c')('u'),
      deterministicIds('a', 'b', 'c0')('t'),
    ]
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('are version 5 UUIDs', () => {
    expect(deterministicIds('a', 'b', 'c')('t')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  })
})

/** RFC 9562, section 5.5, implemented a second time. */
function expected(name: readonly unknown[]): string {
  const hash = createHash('sha1').update('7c0f3a6e2b5d4e1f9a8b6c4d2e0f1a3b', 'hex').update(JSON.stringify(name)).digest('hex').slice(0, 32)
  const variant = ((Number.parseInt(hash.slice(16, 17), 16) & 3) | 8).toString(16)
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-5${hash.slice(13, 16)}-${variant}${hash.slice(17, 20)}-${hash.slice(20)}`
}
