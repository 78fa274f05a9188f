import { describe, expect, it } from 'vitest'
import { memoryObjects } from '../../../testkit/src/helpers/memory-objects.ts'
import type { RawMessage } from '../../src/message/message.ts'
import { claimCheck } from '../../src/payload/claim-check.ts'
import { claimKey, claimName } from '../../src/payload/claim-key.ts'
import { collectObjects } from '../../src/payload/collect-objects.ts'
import type { ObjectStore } from '../../src/payload/object-store.ts'
import { bytesOf, call, placed, received, textOf } from '../support/payload-world.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const hour = 3_600_000
const day = 24 * hour

function openStore() {
  const runtime = new VirtualRuntime()
  const real = memoryObjects({ runtime })
  const deletions: number[] = []
  const store: ObjectStore = {
    ...real,
    async delete(keys) {
      deletions.push(keys.length)
      await real.delete(keys)
    },
  }
  const nameOf = new Map<string, string>()
  /** Stores an object for each name under a key of `claimCheck()`, with the part of the name before the last slash as its prefix. Returns the last key. */
  const put = async (...names: string[]) => {
    let key = ''
    for (const name of names) {
      const prefix = name.slice(0, name.lastIndexOf('/') + 1)
      key = claimKey(prefix, runtime.now(), claimName('/shop', name, '0'.repeat(64)))
      nameOf.set(key, name)
      await store.put(key, bytesOf(name), call)
    }
    return key
  }
  /** The names of the objects that are in the store, or their keys if they were not stored by `put()`. */
  const left = async () => {
    const names: string[] = []
    for await (const { key } of real.list({ olderThan: new Date('9999-01-01') })) names.push(nameOf.get(key) ?? key)
    return names
  }
  return { runtime, store, deletions, put, left }
}

describe('collectObjects()', () => {
  it('deletes objects that are older than the age, and no others', async () => {
    const { runtime, store, put, left } = openStore()
    await put('old/1', 'old/2')
    await runtime.advance(hour)
    await put('exact')
    await runtime.advance(day)
    await put('new')
    expect(await collectObjects({ store, olderThan: day, runtime })).toBe(2)
    expect(await left()).toEqual(['exact', 'new'])
    expect(await collectObjects({ store, olderThan: day, runtime })).toBe(0)
  })

  it('deletes objects by whole hours: no object before it is old enough, and each within an hour after that', async () => {
    const { runtime, store, put, left } = openStore()
    const collect = () => collectObjects({ store, olderThan: day, runtime })
    await put('start of the hour')
    await runtime.advance(hour - 1)
    await put('end of the hour')
    await runtime.advance(day)
    expect(await collect()).toBe(0)
    await runtime.advance(1)
    expect(await collect()).toBe(2)
    expect(await left()).toEqual([])
  })

  it('deletes what a transaction has stored that was rolled back, and the object of an earlier attempt, not that of the retry', async () => {
    const { runtime, store, left } = openStore()
    const codec = claimCheck({ store, above: 1, runtime })
    const encode = async (id: string) => await codec.encode(placed('data', { id }), call)
    await encode('rolled back')
    await encode('retried')
    await runtime.advance(day + hour)
    const retried = await encode('retried')
    await runtime.advance(1)
    expect(await left()).toHaveLength(3)
    expect(await collectObjects({ store, olderThan: day, runtime })).toBe(2)
    expect(await left()).toEqual([(JSON.parse(textOf(retried)) as { key: string }).key])
  })

  it.each([hour, day])(
    'keeps the object of a retry that is stored after the collection has listed the old objects: %d ms',
    async (olderThan) => {
      const { runtime, store } = openStore()
      const codec = claimCheck({ store, above: 1, runtime })
      const message = placed('data', { id: 'o1' })
      const first = await codec.encode(message, call)
      await runtime.advance(olderThan + hour)
      let again: RawMessage | undefined
      const racing: ObjectStore = {
        ...store,
        async *list(options) {
          yield* store.list(options)
          again = await codec.encode(message, call)
        },
      }
      expect(await collectObjects({ store: racing, olderThan, runtime })).toBe(1)
      expect(textOf(await codec.decode(received(again as RawMessage), call))).toBe('data')
      await expect(codec.decode(received(first), call)).rejects.toMatchObject({ code: 'ACKORD_PAYLOAD_MISSING' })
    },
  )

  it('keeps an object that may be stored again under its key, although the clock of the store is wrong', async () => {
    const { runtime, store, put, left } = openStore()
    const key = await put('new')
    const late: ObjectStore = {
      ...store,
      list: async function* list() {
        yield { key, storedAt: new Date(0) }
      },
    }
    expect(await collectObjects({ store: late, olderThan: hour, runtime })).toBe(0)
    expect(await left()).toEqual(['new'])
  })

  it('deletes nothing that claimCheck() has not named', async () => {
    const { runtime, store, left } = openStore()
    const name = claimName('/shop', 'o1', '0'.repeat(64))
    const own = claimKey('', runtime.now(), name)
    const others = [
      'backup.tar',
      'orders/2026-01-01T00',
      'undefined',
      name,
      `2026-13-01T00-${name}`,
      `2026-01-01T99-${name}`,
      `2026-01-01-${name}`,
      `${own}.json`,
      `${own}.part`,
      `${own}-copy`,
      own.toUpperCase(),
      own.slice(0, -1),
      `${own}/1`,
    ]
    for (const key of others) await store.put(key, bytesOf('not a payload'), call)
    await store.put(own, bytesOf('data'), call)
    await runtime.advance(30 * day)
    expect(await collectObjects({ store, olderThan: hour, runtime })).toBe(1)
    expect(await left()).toEqual(others)
  })

  it('deletes only objects with the prefix', async () => {
    const { runtime, store, put, left } = openStore()
    await put('orders/1', 'orders-1/1', 'invoices/orders/1')
    await runtime.advance(day)
    expect(await collectObjects({ store, olderThan: hour, keyPrefix: 'orders/', runtime })).toBe(1)
    expect(await left()).toEqual(['orders-1/1', 'invoices/orders/1'])
  })

  it.each([
    [2, [2, 2, 1]],
    [5, [5]],
    [undefined, [5]],
  ])('deletes in batches: %j', async (batchSize, expected) => {
    const { runtime, store, deletions, put } = openStore()
    await put('1', '2', '3', '4', '5')
    await runtime.advance(day)
    expect(await collectObjects({ store, olderThan: hour, batchSize, runtime })).toBe(5)
    expect(deletions).toEqual(expected)
  })

  it('deletes nothing if there is nothing', async () => {
    const { runtime, store, deletions } = openStore()
    expect(await collectObjects({ store, olderThan: hour, runtime })).toBe(0)
    expect(deletions).toEqual([])
  })

  it('does not trust a store that lists too much', async () => {
    const { runtime, store, put, left } = openStore()
    const key = await put('new')
    await runtime.advance(day)
    const careless: ObjectStore = {
      ...store,
      list: async function* list() {
        yield { key, storedAt: new Date(runtime.now()) }
        yield { key, storedAt: new Date(Number.NaN) }
      },
    }
    expect(await collectObjects({ store: careless, olderThan: hour, runtime })).toBe(0)
    expect(await left()).toEqual(['new'])
  })

  it('ends when it is aborted, and the next call goes on', async () => {
    const { runtime, store, put, left } = openStore()
    await put('1', '2', '3', '4', '5')
    await runtime.advance(day)
    const abort = new AbortController()
    const aborting: ObjectStore = {
      ...store,
      async delete(keys) {
        await store.delete(keys)
        abort.abort(new Error('shutdown'))
      },
    }
    expect(await collectObjects({ store: aborting, olderThan: hour, batchSize: 2, signal: abort.signal, runtime })).toBe(2)
    expect(await left()).toEqual(['3', '4', '5'])
    expect(await collectObjects({ store, olderThan: hour, signal: abort.signal, runtime })).toBe(0)
    expect(await collectObjects({ store, olderThan: hour, runtime })).toBe(3)
  })

  it('deletes nothing more when it is aborted while the last objects are listed', async () => {
    const { runtime, store, put, left } = openStore()
    await put('1', '2')
    await runtime.advance(day)
    const abort = new AbortController()
    const aborting: ObjectStore = {
      ...store,
      async *list(options) {
        yield* store.list(options)
        abort.abort(new Error('shutdown'))
      },
    }
    expect(await collectObjects({ store: aborting, olderThan: hour, signal: abort.signal, runtime })).toBe(0)
    expect(await left()).toEqual(['1', '2'])
  })

  it('deletes the others if the store cannot delete some objects, and rejects at the end', async () => {
    const { runtime, store, put, left } = openStore()
    await put('1', 'locked/1', '2', 'locked/2', '3')
    await runtime.advance(day)
    const failing: ObjectStore = {
      ...store,
      async delete(keys) {
        if (keys.some((key) => key.startsWith('locked/'))) throw new Error('locked')
        await store.delete(keys)
      },
    }
    await expect(collectObjects({ store: failing, olderThan: hour, batchSize: 1, runtime })).rejects.toMatchObject({
      message: 'The object store failed to delete 2 batches of objects; 3 objects were deleted.',
      errors: [{ message: 'locked' }, { message: 'locked' }],
    })
    expect(await left()).toEqual(['locked/1', 'locked/2'])
  })

  it('ends after ten failures, and the next call goes on', async () => {
    const { runtime, store, put, left } = openStore()
    await put(...Array.from({ length: 30 }, (_, index) => `${index}`))
    await runtime.advance(day)
    let calls = 0
    const failing: ObjectStore = {
      ...store,
      delete() {
        calls += 1
        return Promise.reject(new Error('connection refused'))
      },
    }
    await expect(collectObjects({ store: failing, olderThan: hour, batchSize: 1, runtime })).rejects.toMatchObject({
      message: 'The object store failed to delete 10 batches of objects; 0 objects were deleted. The rest was not tried.',
    })
    expect(calls).toBe(10)
    expect(await collectObjects({ store, olderThan: hour, runtime })).toBe(30)
    expect(await left()).toEqual([])
  })

  it('rejects with the error of the store if the listing fails', async () => {
    const { runtime, store } = openStore()
    const outage = new Error('connection refused')
    const failing: ObjectStore = {
      ...store,
      list: () => {
        throw outage
      },
    }
    await expect(collectObjects({ store: failing, olderThan: hour, runtime })).rejects.toBe(outage)
  })

  it('accepts an age that is longer than the time since 1970', async () => {
    const { runtime, store, put } = openStore()
    await put('1')
    const limits: string[] = []
    const formatting: ObjectStore = {
      ...store,
      list(options) {
        limits.push(options.olderThan.toISOString())
        return store.list(options)
      },
    }
    expect(await collectObjects({ store: formatting, olderThan: Number.MAX_VALUE, runtime })).toBe(0)
    expect(limits).toEqual(['1970-01-01T00:00:00.000Z'])
  })

  const store = memoryObjects()
  it.each([
    ['collectObjects()', { store, olderThan: day, age: 1 }],
    ['store.list', { olderThan: day }],
    ['store.delete', { store: { list: store.list }, olderThan: day }],
    ['olderThan', { store }],
    ['olderThan', { store, olderThan: 0 }],
    // A month in seconds.
    ['olderThan', { store, olderThan: 30 * 86_400 }],
    ['olderThan', { store, olderThan: Infinity }],
    ['batchSize', { store, olderThan: day, batchSize: 0 }],
  ])('rejects an invalid option: %s', async (option, options) => {
    await expect(collectObjects(options as never)).rejects.toMatchObject({ code: 'ACKORD_INVALID_OPTION', option })
  })
})
