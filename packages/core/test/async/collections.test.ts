import { describe, expect, it } from 'vitest'
import { groupBy, inChunks } from '../../src/async/collections.ts'

describe('groupBy', () => {
  it('keeps the order of the groups and of their items', () => {
    expect(groupBy(['b1', 'a1', 'b2', 'b3', 'a2'], ([key = '']) => key)).toEqual([
      ['b', ['b1', 'b2', 'b3']],
      ['a', ['a1', 'a2']],
    ])
    expect(groupBy([], String)).toEqual([])
  })

  it('accepts keys that are names of object members', () => {
    expect(groupBy(['__proto__', 'constructor'], String).map(([key]) => key)).toEqual(['__proto__', 'constructor'])
  })
})

describe('inChunks', () => {
  it('splits by count and by size, and puts a larger item into a separate chunk', () => {
    const sizes = [1, 2, 3, 10, 1, 1, 1].map((size) => ({ size }))
    const chunks = [...inChunks(sizes, { count: 2, size: 4 }, ({ size }) => size)].map((chunk) => chunk.map(({ size }) => size))
    expect(chunks).toEqual([[1, 2], [3], [10], [1, 1], [1]])
  })
})
