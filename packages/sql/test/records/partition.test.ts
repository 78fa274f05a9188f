import { expect, it } from 'vitest'
import { partitionCount, partitionOf } from '../../src/records/outbox-row.ts'

it('never changes: these values are stored', () => {
  expect(['', 'a', 'customer-1', 'ключ'].map(partitionOf)).toMatchInlineSnapshot(`
    [
      217,
      32,
      88,
      37,
    ]
  `)
})

it('spreads keys evenly', () => {
  const counts = new Array<number>(partitionCount).fill(0)
  for (let key = 0; key < 25_600; key += 1) {
    const partition = partitionOf(`customer-${key}`)
    counts[partition] = (counts[partition] ?? 0) + 1
  }
  expect(Math.min(...counts)).toBeGreaterThan(50)
  expect(Math.max(...counts)).toBeLessThan(200)
})
