import { describe, expect, it } from 'vitest'
import { settlePromises } from '../../../core/test/support/virtual-runtime.ts'
import { type BatchSlot, BatchSlots } from '../../src/delivery/batch-slots.ts'

/** The values a promise has resolved to so far. */
function watch<T>(promise: Promise<T>): { value: T | undefined; done: boolean } {
  const seen: { value: T | undefined; done: boolean } = { value: undefined, done: false }
  void promise.then((value) => Object.assign(seen, { value, done: true }))
  return seen
}

/** A batch that is being settled. */
async function settling(slots: BatchSlots): Promise<BatchSlot> {
  const slot = await slots.acquire()
  await slot.begin()
  slot.sent()
  return slot
}

describe('batch slots', () => {
  it('let the next batch be claimed while one is settled, and sent when that has ended', async () => {
    const slots = new BatchSlots(1)
    const first = await settling(slots)
    const second = await slots.acquire()
    const [sending, third] = [watch(second.begin()), watch(slots.acquire())]
    await settlePromises()
    expect([sending.done, third.done]).toEqual([false, false])
    first.end()
    await settlePromises()
    expect([sending.done, third.done]).toEqual([true, false])
    second.sent()
    await settlePromises()
    expect(third.done).toBe(true)
  })

  it('are granted once, however often they are released', async () => {
    const slots = new BatchSlots(1)
    const first = await settling(slots)
    for (const _ of [1, 2, 3]) {
      first.sent()
      first.end()
    }
    await settling(slots)
    const third = await slots.acquire()
    const [sending, fourth] = [watch(third.begin()), watch(slots.acquire())]
    await settlePromises()
    expect([sending.done, fourth.done]).toEqual([false, false])
  })

  it('of a claim that found nothing, or was stopped while it waited, go to the next caller', async () => {
    const slots = new BatchSlots(1)
    const first = await settling(slots)
    const empty = await slots.acquire()
    empty.end()
    const stopped = await slots.acquire()
    const stopping = new AbortController()
    const waiting = stopped.begin(stopping.signal)
    stopping.abort()
    await waiting
    stopped.end()
    const next = await slots.acquire()
    const sending = watch(next.begin())
    await settlePromises()
    expect(sending.done).toBe(false)
    first.end()
    await settlePromises()
    expect(sending.done).toBe(true)
  })

  it('are granted in turn, so that a caller that asks all the time starves no other', async () => {
    const slots = new BatchSlots(2)
    const turns: string[] = []
    const ask = async (name: string) => {
      for (let round = 0; round < 20; round += 1) {
        const slot = await slots.acquire()
        await slot.begin()
        turns.push(name)
        // Runs concurrently with the next, as a batch does.
        void settlePromises()
          .then(() => slot.sent())
          .then(() => settlePromises())
          .then(() => slot.end())
      }
    }
    await Promise.all([ask('claims'), ask('hot path')])
    for (let turn = 4; turn <= turns.length; turn += 4) expect(new Set(turns.slice(turn - 4, turn)).size).toBe(2)
  })
})
