import { expect, it } from 'vitest'
import { KeyQueues } from '../../src/broker/key-queues.ts'

it('one item of a key is in flight, the others wait in order', () => {
  const queues = new KeyQueues<string>()
  expect([queues.add('a', 'a1'), queues.add('a', 'a2'), queues.add('b', 'b1'), queues.add('a', 'a3')]).toEqual([true, false, true, false])
  expect(queues.size).toBe(2)
  expect([...queues.waiting()]).toEqual(['a2', 'a3'])
  expect([queues.next('a'), queues.next('a'), queues.next('a'), queues.next('a')]).toEqual(['a2', 'a3', undefined, undefined])
  expect(queues.size).toBe(0)
  expect([queues.take('a'), queues.take('a'), queues.take('b')]).toEqual([true, false, false])
})

it('removing waiting items keeps the keys blocked, and clearing frees them', () => {
  const queues = new KeyQueues<string>()
  queues.add('a', 'a1')
  queues.push('a', 'a2')
  expect(queues.removeWaiting()).toEqual(['a2'])
  expect([queues.size, queues.take('a')]).toEqual([0, false])
  queues.push('a', 'a3')
  queues.clear()
  expect([queues.size, queues.take('a')]).toEqual([0, true])
})
