import { describe, expect, it } from 'vitest'
import { SlotTable } from '../../src/async/collections.ts'

describe('SlotTable', () => {
  it('holds items that were added and not removed, also the same item twice', () => {
    const slots = new SlotTable<string>()
    const [a, b] = [slots.add('a'), slots.add('b')]
    slots.add('a')
    expect(slots.size).toBe(3)
    expect(slots.all()).toEqual(['a', 'b', 'a'])
    slots.remove(b)
    slots.remove(a)
    expect(slots.size).toBe(1)
    expect(slots.all()).toEqual(['a'])
  })

  it('reuses slots', () => {
    const slots = new SlotTable<number>()
    const places = Array.from({ length: 3 }, (_, number) => slots.add(number))
    for (const place of places) slots.remove(place)
    expect(new Set([7, 8, 9].map((number) => slots.add(number)))).toEqual(new Set(places))
    expect(slots.all().sort()).toEqual([7, 8, 9])
  })
})
