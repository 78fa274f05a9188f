import { expect, it } from 'vitest'
import { demo } from '../src/demo.ts'

it('handles every order or puts it into the dead letter, through failures, and loses none', async () => {
  const progress: number[] = []
  const result = await demo(500, (done) => progress.push(done))
  expect(result).toEqual({ orders: 500, saved: 498, events_published: 498, redelivered: 48, dead_lettered: 2, lost: 0 })
  expect(progress.length).toBeGreaterThan(0)
})
