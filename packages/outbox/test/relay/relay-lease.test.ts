import { isAckordError, type PublishResult } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { deferred, recordingPublisher } from '../../../core/test/support/router-world.ts'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'
import { Relay } from '../../src/relay/relay.ts'
import { event, ids, MortalRuntime, openWorld, recordingMetrics, WatchedStore } from '../support/relay-world.ts'

const ok: PublishResult = { ok: true }

let removeProbe = () => {}
afterEach(() => removeProbe())

/** The first caller that reaches this point blocks there forever, as in a killed process. */
function killAt(point: string, kill: () => void): void {
  let killed = false
  removeProbe = installProbe((reached) => {
    if (reached !== point || killed) return
    killed = true
    kill()
    return new Promise(() => {})
  })
}

describe('the lease of a batch', () => {
  it('is renewed during a slow publish, by one timer, so that no other relay claims the records', async () => {
    const gate = deferred()
    const world = openWorld({
      lease: 30_000,
      publishTimeout: 29_000,
      answer: async ({ messages }) => {
        await gate.promise
        return messages.map(() => ok)
      },
    })
    await world.add('a', ...ids(5, 'a'))
    await world.add('b', ...ids(5, 'b'))
    world.relay.start()
    const other = world.another().start()
    await world.runtime.advance(28_000)
    // The store is slow too: together they take longer than the lease.
    world.store.before = (call) =>
      call === 'settle' ? new Promise((resolve) => void world.runtime.setTimeout(resolve, 15_000)) : undefined
    gate.resolve()
    await world.runtime.advance(15_000)
    expect(world.publisher.calls).toHaveLength(2)
    expect(world.store.count('renew')).toBe(2)
    expect(await world.states()).toEqual({})
    expect(world.relay.health().published + other.health().published).toBe(10)
    expect(world.metrics.sum('ackord.outbox.lease_lost')).toBe(0)
    await world.relay.stop()
    await other.stop()
    expect(world.runtime.timers).toBe(0)
  })

  it('ends the publish when it is lost, and settles none of the lost records', async () => {
    const world = openWorld({ lease: 3000, publishTimeout: 2900, answer: () => new Promise(() => {}) })
    await world.add('orders', 'e1', 'e2')
    // The claim took most of the lease, and it cannot be renewed.
    world.store.after = (call) => (call === 'claim' ? new Promise((resolve) => void world.runtime.setTimeout(resolve, 2000)) : undefined)
    world.store.before = (call) => {
      if (call === 'renew') throw new Error('the store is away')
    }
    world.relay.start()
    await world.runtime.advance(2999)
    const [call] = world.publisher.calls
    expect(call?.signal.aborted).toBe(false)
    await world.runtime.advance(500)
    expect(call?.signal.aborted).toBe(true)
    expect(isAckordError(call?.signal.reason, 'ACKORD_LEASE_LOST')).toBe(true)
    expect(world.metrics.sum('ackord.outbox.lease_lost')).toBeGreaterThanOrEqual(2)
    expect(world.store.count('settle')).toBe(0)
    // A lost lease says nothing about the destination.
    expect(world.logger.lines.filter(({ text }) => text.includes('destination'))).toEqual([])
    const stopped = world.relay.stop()
    await world.runtime.advance(60_000)
    await stopped
  })

  it('is lost for a record that another relay claimed: that record is not settled, the others are', async () => {
    const gate = deferred()
    const world = openWorld({
      lease: 3000,
      retain: true,
      answer: async ({ messages }) => {
        await gate.promise
        return messages.map(() => ok)
      },
    })
    await world.add('orders', 'e1', 'e2')
    const { renew } = world.memory
    world.store.renew = async (claims, lease) => (await renew.call(world.memory, claims, lease)).map((kept, index) => kept && index > 0)
    world.relay.start()
    await world.runtime.advance(1500)
    gate.resolve()
    await world.runtime.advance(0)
    expect((await world.memory.list({}, { limit: 5 })).records.map(({ state }) => state)).toEqual(['leased', 'published'])
    expect(world.relay.health()).toMatchObject({ published: 1, leasesLost: 1 })
    await world.relay.stop()
  })

  it('is not counted as lost when a late answer to a renewal arrives after the records were released', async () => {
    const [publishing, renewing] = [deferred(), deferred()]
    const world = openWorld({
      lease: 3000,
      answer: async ({ messages }) => {
        await publishing.promise
        return messages.map(() => ({ ok: false, error: 'down', scope: 'destination' }))
      },
    })
    await world.add('orders', 'e1')
    world.store.before = (call) => (call === 'renew' ? renewing.promise : undefined)
    world.relay.start()
    await world.runtime.advance(1500)
    publishing.resolve()
    await world.runtime.advance(0)
    renewing.resolve()
    await world.runtime.advance(0)
    expect(world.relay.health()).toMatchObject({ released: 1, leasesLost: 0 })
    await world.relay.stop()
  })

  it('that expired in a stall before the publish prevents the records from being sent', async () => {
    const world = openWorld({ lease: 3000 })
    await world.add('orders', 'e1')
    const stall = deferred()
    removeProbe = installProbe((point) => (point === 'relay.claimed' ? stall.promise : undefined))
    world.store.before = (call) => {
      if (call === 'renew') throw new Error('stalled')
    }
    world.relay.start()
    await world.runtime.advance(20_000)
    const rival = await world.memory.claim({ limit: 10, lease: 60_000 })
    expect(rival).toHaveLength(1)
    stall.resolve()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual([])
    expect((await world.memory.get('1'))?.attempts).toBe(2)
    await world.relay.stop()
  })
})

describe('a relay that is killed', () => {
  it.each(['relay.published', 'relay.beforeSettle'])(
    'after the publish, at %s, makes a duplicate with the same id and loses nothing',
    async (point) => {
      const world = openWorld({ lease: 3000 })
      await world.add('orders', ...ids(3))
      const mortal = new MortalRuntime(world.runtime)
      killAt(point, () => mortal.kill())
      world.another({ runtime: mortal }).start()
      await world.runtime.advance(0)
      expect(world.sent()).toEqual(ids(3))
      world.relay.start()
      await world.runtime.advance(20_000)
      expect(world.sent()).toEqual([...ids(3), ...ids(3)])
      expect(await world.states()).toEqual({})
      await world.relay.stop()
    },
  )

  it('before the publish delays the records by a lease, and uses an attempt of each', async () => {
    const world = openWorld({ lease: 3000, retain: true })
    await world.add('orders', ...ids(3))
    const mortal = new MortalRuntime(world.runtime)
    killAt('relay.claimed', () => mortal.kill())
    world.another({ runtime: mortal }).start()
    await world.runtime.advance(0)
    world.relay.start()
    await world.runtime.advance(2900)
    expect(world.sent()).toEqual([])
    await world.runtime.advance(6000)
    expect(world.sent()).toEqual(ids(3))
    expect((await world.memory.get('1'))?.attempts).toBe(2)
    await world.relay.stop()
  })

  it('after the settle makes no duplicate', async () => {
    const world = openWorld({ lease: 3000 })
    await world.add('orders', ...ids(3))
    const mortal = new MortalRuntime(world.runtime)
    killAt('relay.afterSettle', () => mortal.kill())
    world.another({ runtime: mortal }).start()
    await world.runtime.advance(0)
    world.relay.start()
    await world.runtime.advance(60_000)
    expect(world.sent()).toEqual(ids(3))
    await world.relay.stop()
  })

  it('again and again by one record parks that record in the end', async () => {
    const world = openWorld({ lease: 1000, maxAttempts: 3, batchSize: 1 })
    await world.add('orders', 'killer', 'e1')
    for (let life = 1; life <= 4; life += 1) {
      const mortal = new MortalRuntime(world.runtime)
      const publisher = recordingPublisher(async ({ messages }) => {
        if (messages.some(({ id }) => id === 'killer')) {
          mortal.kill()
          await new Promise(() => {})
        }
        return messages.map(() => ok)
      })
      world.another({ runtime: mortal, publisher }).start()
      await world.runtime.advance(10_000)
    }
    expect((await world.memory.list({}, { limit: 5 })).records).toMatchObject([{ state: 'parked', attempts: 4 }])
  })
})

describe('several relays with random stalls past the lease', () => {
  it.each([2, 4])(
    'publish each id, and no more duplicates than leases were lost (%i relays)',
    async (relays) => {
      let duplicated = 0
      await fc.assert(
        fc.asyncProperty(fc.integer({ min: 1, max: 1_000_000 }), async (seed) => {
          const runtime = new VirtualRuntime({ seed })
          const memory = new MemoryOutboxStore({ runtime })
          const sent = new Map<string, number>()
          const metrics = recordingMetrics()
          const lease = 1000
          const wait = (delay: number) => new Promise<void>((resolve) => runtime.setTimeout(resolve, delay))
          const stall = async () => {
            const dice = runtime.random()
            if (dice < 0.15) await wait(runtime.random() * 4 * lease)
            else if (dice < 0.5) await wait(runtime.random() * 50)
          }
          const publisher = recordingPublisher(async ({ messages, signal }) => {
            await stall()
            // A record that timed out and was sent nevertheless is another kind of duplicate.
            signal.throwIfAborted()
            return messages.map(({ id = '' }) => {
              const dice = runtime.random()
              if (dice < 0.05) return { ok: false, error: 'this one not' }
              if (dice < 0.06) return { ok: false, error: 'none at all', scope: 'destination' }
              sent.set(id, (sent.get(id) ?? 0) + 1)
              return ok
            })
          })
          const transaction = memory.begin()
          const all = ids(60)
          await memory.append(
            transaction,
            all.map((id, index) => ({ destination: `d${index % 3}`, message: event(id) })),
          )
          transaction.commit()
          const crew = Array.from({ length: relays }, () => {
            const store = new WatchedStore(memory)
            store.before = stall
            store.after = stall
            const options = { batchSize: 7, maxAttempts: 1000, backoff: () => 100, publishTimeout: 900, pollInterval: 100 }
            const logger = { debug() {}, info() {}, warn() {}, error() {} }
            return new Relay(store, { publisher, runtime, logger, metrics, lease, ...options }).start()
          })
          await runtime.advance(120_000)
          const stopped = Promise.all(crew.map((relay) => relay.stop()))
          await runtime.advance(30_000)
          await stopped
          expect([...sent.keys()].sort()).toEqual([...all].sort())
          const duplicates = [...sent.values()].reduce((sum, count) => sum + count - 1, 0)
          duplicated += duplicates
          expect(duplicates).toBeLessThanOrEqual(metrics.sum('ackord.outbox.lease_lost'))
          expect((await memory.stats()).destinations).toEqual([])
          expect(runtime.timers).toBe(0)
        }),
        { seed: 20_260_101, numRuns: 12 },
      )
      // The stalls were long enough to matter.
      expect(duplicated).toBeGreaterThan(10)
    },
    60_000,
  )
})
