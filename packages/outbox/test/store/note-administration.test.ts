import { AckordError, Message } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { completeAdministration, MemoryOutboxStore, type OutboxNotes } from '../../src/index.ts'

function openStore() {
  const runtime = new VirtualRuntime()
  const store = new MemoryOutboxStore({ runtime })
  return { runtime, store }
}

describe('the audit', () => {
  it('has an action that failed, with its error', async () => {
    const { runtime, store } = openStore()
    const base = { ...methodsOf(store), rearm: async () => Promise.reject(new Error('the database is read-only')) }
    const admin = completeAdministration(base, { notes: store.notes, runtime })
    await expect(admin.rearm({ ids: ['1', '2', '3', '4', '5', '6', '7'] }, {}, { by: 'ann' })).rejects.toThrow('read-only')
    expect(await admin.audit({ limit: 10 })).toMatchObject([
      { action: 'rearm', by: 'ann', what: '1, 2, 3, 4, 5 and 2 more', error: 'the database is read-only' },
    ])
  })

  it('has an action whose process ended before it was done', async () => {
    const { runtime, store } = openStore()
    const base = { ...methodsOf(store), park: () => new Promise<number>(() => {}) }
    const admin = completeAdministration(base, { notes: store.notes, runtime })
    void admin.park(['1'], 'wrong currency', { by: 'ann' })
    await runtime.advance(0)
    const [entry] = await admin.audit({ limit: 10 })
    expect(entry).toMatchObject({ action: 'park', what: '1', reason: 'wrong currency' })
    expect(entry?.count).toBeUndefined()
  })

  it('prevents an action that it cannot record', async () => {
    const { runtime, store } = openStore()
    const notes: OutboxNotes = { put: () => Promise.reject(new Error('no such table')), read: async () => [], delete: async () => false }
    let parked = 0
    const base = { ...methodsOf(store), park: async () => (parked += 1) }
    const admin = completeAdministration(base, { notes, runtime })
    await expect(admin.park(['1'], 'no')).rejects.toThrow('no such table')
    expect(parked).toBe(0)
  })

  it('does not prevent an action on tables of an older version, which have none', async () => {
    const { runtime, store } = openStore()
    const missing = () => Promise.reject(new AckordError('ACKORD_SCHEMA', 'The tables have version 3.'))
    const admin = completeAdministration(methodsOf(store), { notes: { put: missing, read: missing, delete: missing }, runtime })
    expect(await admin.park(['1'], 'wrong')).toBe(0)
    await expect(admin.pause('orders')).rejects.toThrow('version 3')
  })
})

describe('discarding by filter', () => {
  it('takes many records in steps, and none that is not parked', async () => {
    const { store } = openStore()
    const transaction = store.begin()
    const message = (id: string) => new Message(new Uint8Array(), { id, type: 't', source: '/s', specversion: '1.0' })
    await store.append(
      transaction,
      Array.from({ length: 1300 }, (_, index) => ({ destination: 'orders', message: message(String(index)) })),
    )
    transaction.commit()
    const { records } = await store.list({}, { limit: 2000 })
    await store.park(
      records.slice(0, 1201).map(({ id }) => id),
      'wrong',
    )
    expect(await store.discard({ filter: { destination: 'orders' } }, 'all of them')).toBe(1201)
    expect((await store.stats()).destinations).toMatchObject([{ ready: 99, parked: 0 }])
  })
})

function methodsOf(store: MemoryOutboxStore) {
  return {
    list: store.list.bind(store),
    get: store.get.bind(store),
    rearm: store.rearm.bind(store),
    park: store.park.bind(store),
    discard: (ids: readonly string[], reason: string) => store.discard(ids, reason),
    cancelWaiting: (ids: readonly string[], reason: string) => store.cancelWaiting(ids, reason),
    stats: store.stats.bind(store),
    history: store.history.bind(store),
    deletePublished: store.deletePublished.bind(store),
  }
}
