import { Message } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import { streamOutbox } from '../../../src/outbox/stream/stream-outbox.ts'
import { internalsOf, type Redis } from '../../../src/transaction/redis.ts'
import { TestTransaction } from './test-transaction.ts'

function record(id: string, delay?: number): NewOutboxRecord {
  const message = new Message(new TextEncoder().encode('{}'), { id, type: 'test.event', source: '/test' })
  return { destination: 'orders', message, delay }
}

/** Exercises every feature of a stream outbox; runs each of its scripts at least once. */
export async function useStreamOutbox(redis: Redis): Promise<void> {
  const settings = { tags: ['flow'], claimInterval: 0, idleTime: 1, block: 20 }
  const store = streamOutbox(redis, settings)
  const other = streamOutbox(redis, settings)
  const transaction = new TestTransaction()
  await store.append(transaction, [...['a', 'b', 'c', 'd', 'e'].map((id) => record(id)), record('later', 3_600_000)])
  await transaction.commit(internalsOf(redis).port)

  const [published, failed, parked, released, held] = await store.claim({ limit: 10, lease: 60_000 })
  if (!(published && failed && parked && released && held)) throw new Error('Expected five claimed records.')
  await store.renew([held], 1)
  await store.release([released])
  await store.settle([
    { id: published.id, token: published.token, result: 'published' },
    { id: failed.id, token: failed.token, result: 'failed', error: 'refused', retryAfter: 0 },
    { id: parked.id, token: parked.token, result: 'parked', error: 'too large' },
  ])
  const again = await other.claim({ limit: 2, lease: 60_000 })
  await other.settle(again.map(({ id, token }) => ({ id, token, result: 'parked', error: 'never' })))
  // Takes over the record whose lease of one millisecond has expired.
  for (let taken = 0; taken === 0; ) taken = (await other.claim({ limit: 10, lease: 60_000 })).length

  await store.list({}, { limit: 2 })
  await store.get(parked.id)
  await store.history(parked.id)
  await store.rearm({ ids: [parked.id] }, { attributes: { note: 'mended' } })
  const { records } = await store.list({ state: 'parked' }, { limit: 10 })
  await store.rearm({ ids: records.slice(0, 1).map(({ id }) => id) })
  await store.discard(
    records.slice(1).map(({ id }) => id),
    'not needed',
  )
  await store.stats()
  await store.pause('orders', { duration: 1 })
  await store.pauses()
  await store.resume('orders')
  await store.deletePublished({ olderThan: 0, limit: 10 })

  const stop = new AbortController()
  let woken = 0
  for await (const _ of store.wakeUps?.({ signal: stop.signal }) ?? []) {
    woken += 1
    if (woken === 2) break
    const more = new TestTransaction()
    await store.append(more, [record('more')])
    await more.commit(internalsOf(redis).port)
  }
}
