import { describe, expect, it } from 'vitest'
import { failureOf } from '../../../core/test/support/router-world.ts'
import { settlePromises, VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'
import type { ClaimedRecord, Outcome } from '../../src/store/outbox-store.ts'
import { event, ids } from '../support/relay-world.ts'

function open(options: { readonly retain?: boolean } = {}) {
  const runtime = new VirtualRuntime()
  const store = new MemoryOutboxStore({ runtime, ...options })
  const add = async (destination: string, ...added: readonly string[]) => {
    const transaction = store.begin()
    await store.append(
      transaction,
      added.map((id) => ({ destination, message: event(id) })),
    )
    transaction.commit()
  }
  const claim = (options: Partial<Parameters<typeof store.claim>[0]> = {}) => store.claim({ limit: 100, lease: 1000, ...options })
  return { runtime, store, add, claim }
}

function idsOf(records: readonly ClaimedRecord[]): (string | undefined)[] {
  return records.map(({ message }) => message.id)
}

function outcome({ id, token }: ClaimedRecord, result: 'published' | 'failed' | 'parked' = 'published', retryAfter = 500): Outcome {
  if (result === 'published') return { id, token, result }
  return result === 'failed' ? { id, token, result, error: 'no', retryAfter } : { id, token, result, error: 'never' }
}

async function parked(world: ReturnType<typeof open>, ...added: readonly string[]): Promise<readonly ClaimedRecord[]> {
  await world.add('orders', ...added)
  const records = await world.claim()
  await world.store.settle(records.map((record) => outcome(record, 'parked')))
  return records
}

describe('appending', () => {
  it('makes records visible when the transaction commits, in their order, and not before', async () => {
    const { store, claim } = open()
    const transaction = store.begin()
    await store.append(transaction, [{ destination: 'orders', message: event('e1') }])
    await store.append(transaction, [{ destination: 'stock', message: event('e2') }])
    expect(await claim()).toEqual([])
    transaction.commit()
    const records = await claim()
    expect(idsOf(records)).toEqual(['e1', 'e2'])
    expect(records.map(({ destination }) => destination)).toEqual(['orders', 'stock'])
  })

  it('leaves nothing after a rollback', async () => {
    const { store, claim } = open()
    const transaction = store.begin()
    await store.append(transaction, [{ destination: 'orders', message: event('e1') }])
    transaction.rollback()
    expect(await claim()).toEqual([])
    expect(await store.stats()).toEqual({ destinations: [], oldestAge: undefined })
  })

  it('keeps the records that a savepoint did not roll back', async () => {
    const { store, claim } = open()
    const transaction = store.begin()
    await store.append(transaction, [{ destination: 'orders', message: event('e1') }])
    const savepoint = transaction.savepoint()
    await store.append(transaction, [{ destination: 'orders', message: event('e2') }])
    transaction.rollbackTo(savepoint)
    await store.append(transaction, [{ destination: 'orders', message: event('e3') }])
    transaction.commit()
    expect(idsOf(await claim())).toEqual(['e1', 'e3'])
  })

  it('rejects a transaction that has ended', async () => {
    const { store } = open()
    const transaction = store.begin()
    transaction.commit()
    await failureOf(store.append(transaction, []), 'ACKORD_SCOPE_ENDED')
    await failureOf(() => transaction.rollback(), 'ACKORD_SCOPE_ENDED')
  })

  it.each([{}, undefined, open().store, open().store.begin()])('rejects a transaction of another store', async (other) => {
    await failureOf(open().store.append(other as never, [{ destination: 'orders', message: event('e1') }]), 'ACKORD_TRANSACTION_REQUIRED')
  })

  it('accepts 200,000 records in one call', async () => {
    const { add, store } = open()
    await add('orders', ...ids(200_000).map(String).slice(0, 100_000))
    const transaction = store.begin()
    await store.append(
      transaction,
      ids(200_000).map((id) => ({ destination: 'orders', message: event(id) })),
    )
    transaction.commit()
    expect((await store.stats()).destinations).toMatchObject([{ ready: 300_000 }])
  })

  it('supports a delay', async () => {
    const { store, claim, runtime } = open()
    const transaction = store.begin()
    await store.append(transaction, [{ destination: 'orders', message: event('e1'), delay: 5000 }])
    transaction.commit()
    expect((await store.stats()).destinations).toMatchObject([{ waiting: 1, ready: 0 }])
    await runtime.advance(4999)
    expect(await claim()).toEqual([])
    await runtime.advance(1)
    expect(idsOf(await claim())).toEqual(['e1'])
  })

  it.each([new Uint8Array(), new Uint8Array([0, 255, 0]), new Uint8Array(1_000_000)])('preserves the bytes', async (data) => {
    const { store, claim } = open()
    const transaction = store.begin()
    await store.append(transaction, [{ destination: 'orders', message: event('e1').copy(data) }])
    transaction.commit()
    expect((await claim())[0]?.message.data).toEqual(data)
  })
})

describe('claiming', () => {
  it('returns each record to one relay only', async () => {
    const { add, claim } = open()
    await add('orders', ...ids(10))
    const [first, second, third] = await Promise.all([claim({ limit: 4 }), claim({ limit: 4 }), claim({ limit: 4 })])
    expect([...idsOf(first), ...idsOf(second), ...idsOf(third)]).toEqual(ids(10))
  })

  it('claims records with an expired lease again, with the attempt counted and another token', async () => {
    const { add, claim, runtime } = open()
    await add('orders', 'e1')
    const [first] = await claim()
    await runtime.advance(999)
    expect(await claim()).toEqual([])
    await runtime.advance(1)
    const [second] = await claim()
    expect(second).toMatchObject({ id: first?.id, attempts: 2 })
    expect(second?.token).not.toBe(first?.token)
  })

  it('filters by destinations, exceptions and earlier attempts', async () => {
    const { add, claim, store } = open()
    await add('a', 'a1', 'a2')
    await add('b', 'b1')
    await add('c', 'c1')
    const [tried] = await claim({ limit: 1 })
    if (tried !== undefined) await store.settle([outcome(tried, 'failed', 0)])
    const look = async (options: Parameters<typeof claim>[0]) => {
      const records = await claim(options)
      await store.release(records)
      return idsOf(records)
    }
    expect(await look({ destinations: ['a'] })).toEqual(['a1', 'a2'])
    expect(await look({ except: ['a', 'b'] })).toEqual(['c1'])
    expect(await look({ destinations: ['a', 'b'], except: ['a'] })).toEqual(['b1'])
    expect(await look({ retried: 'only' })).toEqual(['a1'])
    expect(await look({ retried: 'never' })).toEqual(['a2', 'b1', 'c1'])
    expect(await look({ except: ['a'], limit: 1 })).toEqual(['b1'])
  })
})

describe('a claim', () => {
  it('is extended by renewing, with one answer each', async () => {
    const { add, claim, store, runtime } = open()
    await add('orders', 'e1', 'e2')
    const [first, second] = await claim()
    if (first === undefined || second === undefined) return expect.unreachable()
    await store.settle([outcome(first)])
    await runtime.advance(900)
    expect(await store.renew([first, second], 1000)).toEqual([false, true])
    await runtime.advance(900)
    expect(await claim()).toEqual([])
    await runtime.advance(100)
    expect(await store.renew([second], 1000)).toEqual([false])
    expect(idsOf(await claim())).toEqual(['e2'])
  })

  it('that is released leaves the record unchanged', async () => {
    const { add, claim, store } = open()
    await add('orders', 'e1')
    await store.release(await claim())
    const [record] = await claim()
    expect(record?.attempts).toBe(1)
    await store.release(record === undefined ? [] : [record])
    expect(await store.get('1')).toMatchObject({ state: 'ready', attempts: 0, leasedUntil: undefined })
  })

  it('that was lost can neither be released nor settled nor renewed', async () => {
    const { add, claim, store, runtime } = open()
    await add('orders', 'e1')
    const stale = await claim()
    await runtime.advance(1000)
    const [holder] = await claim()
    await store.release(stale)
    for (const result of ['published', 'failed', 'parked'] as const) {
      expect(await store.settle(stale.map((record) => outcome(record, result)))).toEqual(['lost'])
    }
    expect(await store.renew(stale, 1000)).toEqual([false])
    expect(await store.get('1')).toMatchObject({ state: 'leased', attempts: 2 })
    expect(holder === undefined ? [] : await store.settle([outcome(holder)])).toEqual(['applied'])
  })

  it('is settled once; the others of the call are settled nevertheless', async () => {
    const { add, claim, store } = open()
    await add('orders', 'e1', 'e2')
    const records = await claim()
    const outcomes = records.map((record) => outcome(record))
    expect(await store.settle(outcomes.slice(0, 1))).toEqual(['applied'])
    expect(await store.settle(outcomes)).toEqual(['lost', 'applied'])
    expect(await store.settle([{ id: 'nobody', token: 'x', result: 'published' }])).toEqual(['lost'])
  })

  it('settled as failed waits for its delay, with the error', async () => {
    const { add, claim, store, runtime } = open()
    await add('orders', 'e1')
    await store.settle((await claim()).map((record) => outcome(record, 'failed', 5000)))
    expect(await store.get('1')).toMatchObject({ state: 'waiting', attempts: 1, lastError: 'no', availableAt: runtime.now() + 5000 })
    await runtime.advance(4999)
    expect(await claim()).toEqual([])
    await runtime.advance(1)
    expect(await claim()).toMatchObject([{ attempts: 2 }])
  })
})

describe('parked records', () => {
  it('stay until an operator decides', async () => {
    const world = open()
    await parked(world, 'e1')
    await world.runtime.advance(10 ** 12)
    expect(await world.claim()).toEqual([])
    expect(await world.store.deletePublished({ olderThan: 0, limit: 10 })).toBe(0)
    expect(await world.store.get('1')).toMatchObject({ state: 'parked', lastError: 'never' })
  })

  it('are re-armed once, with attempts reset', async () => {
    const world = open()
    await parked(world, 'e1', 'e2')
    expect(await world.store.rearm({ ids: ['1', 'nobody'] })).toBe(1)
    expect(await world.store.rearm({ ids: ['1'] })).toBe(0)
    expect(await world.claim()).toMatchObject([{ id: '1', attempts: 1 }])
    expect(await world.store.rearm({ filter: { destination: 'stock' } })).toBe(0)
    expect(await world.store.rearm({ filter: { type: 'order.placed' } })).toBe(1)
    expect(await world.store.rearm({ filter: {} })).toBe(0)
  })

  it('are re-armed as edited', async () => {
    const world = open()
    await parked(world, 'e1')
    const data = new Uint8Array([1])
    await world.store.rearm({ ids: ['1'] }, { destination: 'stock', data, attributes: { subject: 'mended' } })
    const [record] = await world.claim()
    expect(record?.destination).toBe('stock')
    expect(record?.message.data).toEqual(data)
    expect(record?.message.attributes).toMatchObject({ id: 'e1', subject: 'mended' })
  })

  it('are the only ones that can be discarded', async () => {
    const world = open()
    await parked(world, 'e1')
    await world.add('orders', 'e2', 'e3')
    await world.claim({ limit: 1 })
    expect(await world.store.discard(['1', '2', '3'], 'not needed')).toBe(1)
    expect(await world.store.get('1')).toBeUndefined()
    expect((await world.store.stats()).destinations).toMatchObject([{ ready: 1, leased: 1, parked: 0 }])
  })
})

describe('operator queries', () => {
  it('count records by destination and state, with the age of the oldest pending one', async () => {
    const world = open({ retain: true })
    await parked(world, 'e1')
    await world.runtime.advance(1000)
    await world.add('orders', 'e2', 'e3', 'e4')
    await world.add('stock', 's1')
    const [first, second] = await world.claim({ limit: 3 })
    if (first === undefined || second === undefined) return expect.unreachable()
    await world.store.settle([outcome(first), outcome(second, 'failed', 5000)])
    await world.runtime.advance(10)
    expect(await world.store.stats()).toEqual({
      destinations: [
        { destination: 'orders', ready: 0, waiting: 1, leased: 1, parked: 1, published: 1, oldestAge: 10 },
        { destination: 'stock', ready: 1, waiting: 0, leased: 0, parked: 0, published: 0, oldestAge: 10 },
      ],
      oldestAge: 10,
    })
  })

  it('list records page by page, oldest first', async () => {
    const world = open()
    await world.add('orders', ...ids(5))
    const first = await world.store.list({}, { limit: 2 })
    const second = await world.store.list({}, { limit: 2, after: first.next })
    const third = await world.store.list({}, { limit: 2, after: second.next })
    expect([first, second, third].map(({ records }) => records.map(({ message }) => message.id))).toEqual([
      ['e1', 'e2'],
      ['e3', 'e4'],
      ['e5'],
    ])
    expect(third.next).toBeUndefined()
    expect((await world.store.list({ state: 'parked' }, { limit: 2 })).records).toEqual([])
  })

  it('delete published records with deletePublished, and never others', async () => {
    const world = open({ retain: true })
    await world.add('orders', ...ids(6))
    const records = await world.claim({ limit: 4 })
    await world.store.settle(records.slice(0, 3).map((record) => outcome(record)))
    expect(await world.store.deletePublished({ olderThan: 1000, limit: 10 })).toBe(0)
    await world.runtime.advance(1000)
    expect(await world.store.deletePublished({ olderThan: 1000, limit: 2 })).toBe(2)
    expect(await world.store.deletePublished({ olderThan: 0, limit: 10 })).toBe(1)
    expect((await world.store.list({}, { limit: 10 })).records.map(({ id }) => id)).toEqual(['4', '5', '6'])
  })
})

describe('wake-ups', () => {
  it('are sent for commits, releases and re-arms, also between two pulls, and end with the signal', async () => {
    const world = open()
    const controller = new AbortController()
    const wakeUps = world.store.wakeUps({ signal: controller.signal })
    const first = wakeUps.next()
    await world.add('orders', 'e1')
    expect(await first).toEqual({ done: false, value: undefined })
    await world.add('orders', 'e2')
    expect(await wakeUps.next()).toEqual({ done: false, value: undefined })
    const third = wakeUps.next()
    let come = false
    void third.then(() => {
      come = true
    })
    await settlePromises()
    expect(come).toBe(false)
    controller.abort()
    expect(await third).toEqual({ done: true, value: undefined })
  })
})
