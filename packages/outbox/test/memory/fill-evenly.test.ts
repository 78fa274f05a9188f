import { expect, it } from 'vitest'
import { fillEvenly } from '../../src/memory/memory-ordered-claims.ts'

it.each([
  { limit: 4, sizes: [9, 9, 9, 9], amounts: [1, 1, 1, 1] },
  { limit: 6, sizes: [9, 9, 9, 9], amounts: [2, 2, 1, 1] },
  { limit: 2, sizes: [9, 9, 9], amounts: [1, 1, 0] },
  { limit: 10, sizes: [1, 0, 9, 2], amounts: [1, 0, 7, 2] },
  { limit: 100, sizes: [3, 5], amounts: [3, 5] },
  { limit: 0, sizes: [3], amounts: [0] },
  { limit: 5, sizes: [], amounts: [] },
])('divides $limit over $sizes as $amounts', ({ limit, sizes, amounts }) => {
  expect(fillEvenly(limit, sizes)).toEqual(amounts)
})
