import { expect, it } from 'vitest'
import { DeliveryGuard } from '../src/delivery-guard.ts'
import { native } from './support/fake-connection.ts'

const refused = expect.objectContaining({ code: 'ACKORD_DELIVERY_LIMIT' })

/** A letter that was delivered this often before. */
function delivered(count: unknown) {
  return native({ redelivered: true, properties: { headers: { 'x-delivery-count': count } } })
}

it('refuses letters at half of the limit, and their queue until it has fewer letters', () => {
  const guard = new DeliveryGuard('dead', 20)
  guard.checkLetter(delivered(9), 5)
  guard.checkQueue(5)
  expect(() => guard.checkLetter(delivered(10), 5)).toThrow(refused)
  for (const count of [5, 6]) expect(() => guard.checkQueue(count)).toThrow(refused)
  guard.checkQueue(4)
  guard.checkQueue(5)
})

it('never uses up the last delivery: another process that looks at letters makes the queue seem to have fewer', () => {
  const guard = new DeliveryGuard('dead', 6)
  const looks = [3, 4]
  for (const count of looks) {
    expect(() => guard.checkLetter(delivered(count), 2)).toThrow(refused)
    if (count === 3) guard.checkQueue(1)
  }
  expect(() => guard.checkQueue(1)).toThrow(refused)
  // Nothing is fetched from an empty queue.
  guard.checkQueue(0)
  expect(() => guard.checkQueue(1)).toThrow(refused)
})

it('refuses nothing in a queue without a limit, and ignores counts that are none', () => {
  new DeliveryGuard('dead', Infinity).checkLetter(delivered(1_000_000), 1)
  for (const count of ['many', undefined, { '!': 'timestamp' }, Number.NaN]) new DeliveryGuard('dead', 20).checkLetter(delivered(count), 1)
})
