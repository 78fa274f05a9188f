import { isAckordError } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import type { RelayOptions } from '../../src/options/relay-options.ts'
import { Relay } from '../../src/relay/relay.ts'
import { ids, openWorld } from '../support/relay-world.ts'

/** A relay on the store itself, which is also an OutboxAdmin. */
function open(options: Partial<RelayOptions> = {}) {
  const world = openWorld()
  const { memory, publisher, runtime, logger, metrics } = world
  return { ...world, admin: new Relay(memory, { publisher, runtime, logger, metrics, destinations: ['orders'], ...options }) }
}

describe('the statistics of a relay', () => {
  it('come from the store, by its clock, when they are requested', async () => {
    const { admin, add, runtime, metrics } = open()
    await add('stock', ...ids(3))
    await runtime.advance(5000)
    expect(admin.health().backlog).toBeUndefined()
    expect(await admin.stats()).toMatchObject({ destinations: [{ destination: 'stock', ready: 3 }], oldestAge: 5000 })
    const at = runtime.now()
    await runtime.advance(1000)
    expect(admin.health().backlog).toEqual({ ready: 3, waiting: 0, leased: 0, parked: 0, oldestAge: 5000, at })
    expect(metrics.level('ackord.outbox.lag')).toBe(5000)
    expect(metrics.level('ackord.outbox.records', { destination: 'stock', state: 'ready' })).toBe(3)
  })

  it('are refreshed at intervals while it runs, and fall to 0 when nothing is left', async () => {
    const { admin, memory, add, runtime, metrics } = open({ statsInterval: 1000 })
    await add('stock', ...ids(3))
    admin.start()
    await runtime.advance(10_000)
    expect(admin.health().backlog?.ready).toBe(3)
    expect(metrics.level('ackord.outbox.lag')).toBeGreaterThan(8000)
    const claimed = await memory.claim({ limit: 10, lease: 1000 })
    await memory.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))
    await runtime.advance(2000)
    expect(admin.health().backlog).toMatchObject({ ready: 0, oldestAge: undefined })
    expect(metrics.level('ackord.outbox.lag')).toBe(0)
    expect(metrics.level('ackord.outbox.records', { destination: 'stock', state: 'ready' })).toBe(0)
    await admin.stop()
    expect(runtime.timers).toBe(0)
  })

  it('use at most a twentieth of the time where counting is slow, and none with false', async () => {
    let asked = 0
    const slow = open({ statsInterval: 1000 })
    slow.memory.stats = async () => {
      asked += 1
      await new Promise<void>((resolve) => void slow.runtime.setTimeout(resolve, 3000))
      return { destinations: [], oldestAge: undefined }
    }
    slow.admin.start()
    await slow.runtime.advance(600_000)
    expect(asked).toBeGreaterThanOrEqual(8)
    expect(asked).toBeLessThanOrEqual(12)
    await slow.admin.stop()

    asked = 0
    const off = open({ statsInterval: false })
    off.memory.stats = async () => {
      asked += 1
      return { destinations: [], oldestAge: undefined }
    }
    off.admin.start()
    await off.runtime.advance(600_000)
    expect(asked).toBe(0)
    await off.admin.stop()
  })

  it('keep their last value, without a log line, when the store fails to provide them', async () => {
    const { admin, memory, runtime, logger } = open({ statsInterval: 1000 })
    await admin.stats()
    memory.stats = () => Promise.reject(new Error('away'))
    admin.start()
    await runtime.advance(10_000)
    expect(admin.health().backlog?.ready).toBe(0)
    expect(logger.lines).toEqual([])
    await expect(admin.stats()).rejects.toThrow('away')
    await admin.stop()
  })

  it('are not available from a store that does not count', async () => {
    const { relay } = openWorld()
    await expect(relay.stats()).rejects.toSatisfy((error) => isAckordError(error, 'ACKORD_INVALID_OPTION'))
    expect(relay.health().backlog).toBeUndefined()
  })
})

describe('the cleanup of a relay', () => {
  const day = 86_400_000

  function openCleaning(cleanup: RelayOptions['cleanup']) {
    const world = openWorld({ retain: true })
    const { memory, publisher, runtime, logger } = world
    const deletes: { readonly olderThan: number; readonly limit: number }[] = []
    const { deletePublished } = memory
    memory.deletePublished = (options) => {
      deletes.push(options)
      return deletePublished.call(memory, options)
    }
    return { ...world, deletes, admin: new Relay(memory, { publisher, runtime, logger, cleanup, statsInterval: false }) }
  }

  it('deletes published records that are older than a day, and no others', async () => {
    const { admin, add, states, runtime, memory } = openCleaning(true)
    await add('orders', 'e1')
    admin.start()
    await runtime.advance(day - 60_000)
    expect(await states()).toEqual({ published: 1 })
    await add('orders', 'e2')
    await runtime.advance(200_000)
    expect(await states()).toEqual({ published: 1 })
    expect((await memory.list({}, { limit: 10 })).records.map(({ message }) => message.id)).toEqual(['e2'])
    await admin.stop()
    expect(runtime.timers).toBe(0)
  }, 60_000)

  it('deletes limited batches, one at a time, until nothing is left', async () => {
    const { admin, add, states, runtime, deletes, memory } = openCleaning({ keepPublished: 0, interval: 1000, batchSize: 10 })
    await add('orders', ...ids(95))
    let running = 0
    const { deletePublished } = memory
    memory.deletePublished = async (options) => {
      running += 1
      expect(running).toBe(1)
      await new Promise<void>((resolve) => void runtime.setTimeout(resolve, 5))
      running -= 1
      return await deletePublished(options)
    }
    admin.start()
    await runtime.advance(2000)
    expect(await states()).toEqual({})
    expect(deletes.every(({ limit, olderThan }) => limit === 10 && olderThan === 0)).toBe(true)
    expect(deletes.length).toBeGreaterThanOrEqual(10)
    await admin.stop()
  })

  it('that fails does not stop the publishing, and logs one line at the start and one at the end', async () => {
    const { admin, add, sent, runtime, logger, memory } = openCleaning({ interval: 1000 })
    const { deletePublished } = memory
    memory.deletePublished = () => Promise.reject(new Error('lock timeout'))
    admin.start()
    await runtime.advance(10_000)
    await add('orders', 'e1')
    await runtime.advance(0)
    expect(sent()).toEqual(['e1'])
    memory.deletePublished = deletePublished
    await runtime.advance(5000)
    expect(logger.lines.map(({ level }) => level)).toEqual(['warn', 'info'])
    await admin.stop()
  })

  it('does not delay a stop, in the middle of a delete', async () => {
    const { admin, memory, runtime } = openCleaning({ interval: 1000 })
    memory.deletePublished = () => new Promise(() => {})
    admin.start()
    await runtime.advance(3000)
    await admin.stop()
    expect(runtime.timers).toBe(0)
  })

  it.each([
    [false, 'cleanup must be true or an object'],
    [{ keepPublished: -1 }, 'cleanup.keepPublished'],
    [{ interval: 0 }, 'cleanup.interval'],
    [{ batchSize: 0 }, 'cleanup.batchSize'],
    [{ batch: 5 }, "has no option 'batch'"],
  ])('rejects %o', (cleanup, text) => {
    expect(() => openCleaning(cleanup as never)).toThrow(text)
  })

  it('requires a store that can delete', () => {
    expect(() => openWorld({ cleanup: true })).toThrow('cleanup requires a store that is an OutboxAdmin too')
  })
})
