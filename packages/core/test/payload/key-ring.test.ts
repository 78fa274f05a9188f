import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { staticKeys } from '../../src/payload/key-ring.ts'
import { call } from '../support/payload-world.ts'

describe('staticKeys()', () => {
  it('has its keys, and knows which were forgotten', () => {
    const [k1, k2] = [randomBytes(32), randomBytes(32)]
    const ring = staticKeys({ current: 'k2', keys: { k1, k2 }, forgotten: ['k0'] })
    expect(ring.current).toBe('k2')
    expect(['k1', 'k2', 'k0', 'k3', 'constructor', '__proto__', ''].map((id) => ring.get(id, call))).toEqual([
      new Uint8Array(k1),
      new Uint8Array(k2),
      'forgotten',
      undefined,
      undefined,
      undefined,
      undefined,
    ])
  })

  it('has copies of its keys, and does not show them', () => {
    const key = Buffer.alloc(32, 'k')
    const ring = staticKeys({ current: 'k1', keys: { k1: key } })
    key.fill(0)
    expect(ring.get('k1', call)).toEqual(new Uint8Array(32).fill(107))
    expect(inspect(ring, { depth: 9 })).not.toContain('107')
    expect(JSON.stringify(ring)).toBe('{"current":"k1"}')
  })

  const key = randomBytes(32)
  it.each([
    ['staticKeys()', { current: 'k1', keys: { k1: key }, key }],
    ['current', { current: '', keys: { k1: key } }],
    ['current', { current: 'k2', keys: { k1: key } }],
    ['keys', { current: 'k1' }],
    ['keys', { current: 'k1', keys: null }],
    ["keys['k1']", { current: 'k1', keys: { k1: randomBytes(31) } }],
    ["keys['k1']", { current: 'k1', keys: { k1: key.toString('hex') } }],
    ['A key id', { current: 'k1', keys: { k1: key, '': key } }],
    ['A key id', { current: 'k1', keys: { k1: key, ['x'.repeat(256)]: key } }],
    ['forgotten', { current: 'k1', keys: { k1: key }, forgotten: ['k1'] }],
  ])('rejects an invalid option: %s', (option, options) => {
    expect(() => staticKeys(options as never)).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', option }))
  })
})
