import { Message } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { deferred } from '../../../core/test/support/router-world.ts'
import { settlePromises, VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { BatchSlots } from '../../src/delivery/batch-slots.ts'
import { HotPath } from '../../src/relay/hot-path.ts'
import type { ClaimedRecord } from '../../src/store/outbox-store.ts'

const lease = 30_000

function record(id: string): ClaimedRecord {
  return { id, token: `t-${id}`, destination: 'a', message: new Message(new Uint8Array(), { id }), attempts: 1, createdAt: 0, age: 0 }
}

function records(from: number, to: number): ClaimedRecord[] {
  return Array.from({ length: to - from + 1 }, (_, index) => record(String(from + index)))
}

function openPath({ batchSize = 3, concurrency = 1, down = [] as string[] } = {}) {
  const runtime = new VirtualRuntime()
  const sent: { readonly ids: string[]; readonly until: number; readonly done: ReturnType<typeof deferred<void>> }[] = []
  const returned: string[] = []
  const path = new HotPath({
    lease,
    batchSize,
    slots: new BatchSlots(concurrency),
    runtime,
    serves: (destination) => !down.includes(destination),
    carry(batch, until) {
      const done = deferred<void>()
      sent.push({ ids: batch.map(({ id }) => id), until, done })
      return done.promise
    },
    async release(batch) {
      for (const { id } of batch) returned.push(id)
    },
  })
  return { runtime, sent, returned, path }
}

describe('the hot path', () => {
  it('sends records committed in one tick together, and accumulates the rest meanwhile', async () => {
    const { runtime, sent, path } = openPath()
    path.take(records(1, 1), 0)
    path.take(records(2, 2), 100)
    await settlePromises()
    expect(sent.map(({ ids }) => ids)).toEqual([['1', '2']])
    expect(sent[0]?.until).toBe(runtime.monotonic() - 100 + lease)
    path.take(records(3, 3), 0)
    path.take(records(4, 7), 0)
    await settlePromises()
    expect(sent).toHaveLength(1)
    sent[0]?.done.resolve()
    await settlePromises()
    sent[1]?.done.resolve()
    await settlePromises()
    expect(sent.map(({ ids }) => ids)).toEqual([
      ['1', '2'],
      ['3', '4', '5'],
      ['6', '7'],
    ])
  })

  it('accepts no more than the broker does, and nothing for a destination that is down', async () => {
    const { sent, path } = openPath({ concurrency: 2, down: ['b'] })
    expect(path.lease(['a'])).toBe(lease)
    expect(path.lease(['a', 'b'])).toBeUndefined()
    path.take(records(1, 6), 0)
    await settlePromises()
    expect(sent).toHaveLength(2)
    expect(path.lease(['a'])).toBe(lease)
    path.take(records(7, 12), 0)
    await settlePromises()
    expect(path.lease(['a'])).toBeUndefined()
    for (const { done } of sent) done.resolve()
    await settlePromises()
    expect(path.lease(['a'])).toBe(lease)
  })

  it('releases records that waited for a slot if their destination is busy or down by then', async () => {
    const down: string[] = []
    const { sent, returned, path } = openPath({ down })
    path.take(records(1, 1), 0)
    await settlePromises()
    path.take([record('2'), { ...record('3'), destination: 'b' }, record('4')], 0)
    down.push('a')
    sent[0]?.done.resolve()
    await settlePromises()
    expect(sent.map(({ ids }) => ids)).toEqual([['1'], ['3']])
    expect(returned).toEqual(['2', '4'])
  })

  it('releases records whose lease is about to expire', async () => {
    const { sent, returned, path } = openPath()
    path.take(records(1, 1), (lease * 2) / 3 + 1)
    path.take(records(2, 2), 0)
    await settlePromises()
    expect([returned, sent.map(({ ids }) => ids)]).toEqual([['1'], [['2']]])
  })

  it('waits for publishes in flight when it closes, and releases the rest', async () => {
    const { sent, returned, path } = openPath()
    path.take(records(1, 5), 0)
    await settlePromises()
    let closed = false
    const closing = path.close().then(() => {
      closed = true
    })
    await settlePromises()
    expect([closed, returned, path.lease(['a'])]).toEqual([false, ['4', '5'], undefined])
    path.take(records(6, 6), 0)
    await settlePromises()
    expect(returned).toEqual(['4', '5', '6'])
    sent[0]?.done.resolve()
    await closing
    expect(sent).toHaveLength(1)
  })
})
