import { describe, expect, it } from 'vitest'
import { keySlot } from '../../../src/client/keys.ts'
import { compareIds, nextId } from '../../../src/streams/entries/stream-entry.ts'
import { companionKey, shardNames, shardOf } from '../../../src/streams/entries/stream-names.ts'

describe('the names of streams', () => {
  it('always maps a key to the same shard', () => {
    // A different hash would break the order of every key: these values are part of the format.
    expect(['', 'a', 'customer-7', 'größe', '{x}: y'].map((key) => shardOf(key, 16))).toEqual([5, 12, 1, 10, 14])
  })

  it('spreads the shards of a stream over the slots of a cluster [B17]', () => {
    const slots = new Set(shardNames('orders', 16).map(keySlot))
    expect(slots.size).toBe(16)
    expect(new Set(shardNames('{svc}:orders', 16).map(keySlot)).size).toBe(1)
  })

  it.each([
    ['', 'orders', '{orders}:dead'],
    ['', '{svc}:orders', '{svc}:orders:dead'],
    ['svc:', 'orders', '{svc:orders}:dead'],
    ['{svc}:', 'orders', 'orders:dead'],
    ['', 'a b:c', '{a b:c}:dead'],
  ])('finds a name in the same slot, with the prefix %j for %j [B17]', (prefix, stream, expected) => {
    const found = companionKey(prefix, stream, 'dead')
    expect(found).toBe(expected)
    expect(keySlot(prefix + found)).toBe(keySlot(prefix + stream))
  })

  it('refuses a name with braces that are no hash tag', () => {
    expect(() => companionKey('', 'a}b', 'dead')).toThrow('braces that are no hash tag')
    expect(() => companionKey('', '{}x', 'dead')).toThrow('braces that are no hash tag')
  })

  it('computes the next id, and which of two is smaller', () => {
    expect(nextId('5-7')).toBe('5-8')
    expect(nextId('5-18446744073709551615')).toBe('6-0')
    expect(['10-0', '9-1', '9-10', '9-9007199254740993', '9-9007199254740992'].sort(compareIds)).toEqual([
      '9-1',
      '9-10',
      '9-9007199254740992',
      '9-9007199254740993',
      '10-0',
    ])
  })
})
