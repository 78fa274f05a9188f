import { expect, it } from 'vitest'
import { filtersOverlap, matchesFilter } from '../src/topic.ts'

it.each([
  ['orders', 'orders', true],
  ['orders', 'orders/eu', false],
  ['orders/#', 'orders', true],
  ['orders/#', 'orders/eu/placed', true],
  ['orders/+', 'orders', false],
  ['orders/+', 'orders/', true],
  ['+/eu', '/eu', true],
  ['#', 'a/b', true],
  ['#', '$SYS/broker', false],
  ['+/broker', '$SYS/broker', false],
  ['$SYS/#', '$SYS/broker', true],
])('filter %s and topic %s: %s', (filter, topic, expected) => {
  expect(matchesFilter(filter, topic)).toBe(expected)
})

it.each([
  ['a/+', '+/b', true],
  ['a/#', 'a', true],
  ['a/+/c', 'a/b', false],
  ['a/b', 'a/c', false],
  ['#', '+/+', true],
])('filters %s and %s have a topic in common: %s', (one, other, expected) => {
  expect([filtersOverlap(one, other), filtersOverlap(other, one)]).toEqual([expected, expected])
})
