import { describe, expect, it } from 'vitest'
import { settlePromises } from '../../../core/test/support/virtual-runtime.ts'
import { type BatchSlot, BatchSlots } from '../../src/delivery/batch-slots.ts'

/** What has come so far of a promise. */
function watch<T>(promise: Promise<T>): { value: T | undefined; done: boolean } {
  const seen: { value: T | undefined; done: boolean } = { value: undefined, done: false }
  void promise.then((value) => Object.assign(seen, { value, done: true }))
  return seen
}

/** One that is being settled. */
async function settling(slots: BatchSlots): Promise<BatchSlot> {
  const slot = await slots.acquire()
  await slot.begin()
  slot.sent()
  return slot
}

describe('the slots of batches', () => {
  it('let one be claimed while one is settled, and sent when that has ended', async () => {
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

  it('are given once, however often they are given back', async () => {
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

  it('of one that found nothing, or was stopped while it waited, go on to the next', async () => {
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

  it('go to those who ask by turns, so that nobody is kept out by one who asks all the time', async () => {
    const slots = new BatchSlots(2)
    const turns: string[] = []
    const ask = async (name: string) => {
      for (let round = 0; round < 20; round += 1) {
        const slot = await slots.acquire()
        await slot.begin()
        turns.push(name)
        // On its way beside the next, as a batch is.
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
