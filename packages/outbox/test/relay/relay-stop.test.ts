import { getEventListeners } from 'node:events'
import { isAckordError, type PublishResult } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { deferred } from '../../../core/test/support/router-world.ts'
import { Relay } from '../../src/relay/relay.ts'
import { ids, openWorld, type StoreCall, type World } from '../support/relay-world.ts'

const ok: PublishResult = { ok: true }

let removeProbe = () => {}
afterEach(() => removeProbe())

async function expectNothingLeft(world: World): Promise<void> {
  expect((await world.states()).leased).toBeUndefined()
  expect(world.runtime.timers).toBe(0)
  expect(world.relay.health()).toMatchObject({ state: 'idle', inFlight: 0 })
}

describe('stopping a relay', () => {
  it('before it was started does nothing, and it can be started afterwards', async () => {
    const world = openWorld()
    await world.relay.stop()
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['e1'])
    await world.relay.stop()
    await expectNothingLeft(world)
  })

  it('while it is idle ends it immediately', async () => {
    const world = openWorld()
    world.relay.start()
    await world.runtime.advance(10_000)
    await world.relay.stop()
    await expectNothingLeft(world)
    const claims = world.store.count('claim')
    await world.runtime.advance(60_000)
    expect(world.store.count('claim')).toBe(claims)
  })

  it('right after its start leaves nothing', async () => {
    const world = openWorld()
    await world.add('orders', 'e1')
    await world.relay.start().stop()
    await expectNothingLeft(world)
    expect(await world.states()).toEqual({ ready: 1 })
    expect((await world.memory.get('1'))?.attempts).toBe(0)
  })

  it('while the store does not answer a renewal leaves no timer', async () => {
    const publishing = deferred()
    const world = openWorld({
      lease: 3000,
      answer: async ({ messages }) => {
        await publishing.promise
        return messages.map(() => ok)
      },
    })
    await world.add('orders', 'e1')
    world.store.before = (call) => (call === 'renew' ? new Promise(() => {}) : undefined)
    world.relay.start()
    await world.runtime.advance(1500)
    expect(world.store.count('renew')).toBe(1)
    const stopped = world.relay.stop()
    publishing.resolve()
    await stopped
    await expectNothingLeft(world)
  })

  it('during a claim releases the records it returns', async () => {
    const world = openWorld()
    const gate = deferred()
    await world.add('orders', ...ids(3))
    world.store.after = (call) => (call === 'claim' ? gate.promise : undefined)
    world.relay.start()
    await world.runtime.advance(0)
    const stopped = world.relay.stop()
    gate.resolve()
    await stopped
    expect(world.sent()).toEqual([])
    expect(await world.states()).toEqual({ ready: 3 })
    await expectNothingLeft(world)
  })

  it('between claim and publish releases everything, with no attempt counted', async () => {
    const world = openWorld()
    const gate = deferred()
    removeProbe = installProbe((point) => (point === 'relay.claimed' ? gate.promise : undefined))
    await world.add('orders', ...ids(3))
    world.relay.start()
    await world.runtime.advance(0)
    const stopped = world.relay.stop()
    gate.resolve()
    await stopped
    expect(world.sent()).toEqual([])
    expect((await world.memory.get('1'))?.attempts).toBe(0)
    await expectNothingLeft(world)
  })

  it('while a batch waits for another to be settled releases it immediately', async () => {
    const world = openWorld({ batchSize: 2 })
    const settling = deferred()
    world.store.before = (call) => (call === 'settle' ? settling.promise : undefined)
    await world.add('orders', ...ids(4))
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.store.calls).toEqual(['claim', 'settle', 'claim'])
    const stopped = world.relay.stop()
    await world.runtime.advance(0)
    expect(world.store.count('release')).toBe(1)

    settling.resolve()
    await stopped

    expect(world.sent()).toEqual(['e1', 'e2'])
    expect(await world.states()).toEqual({ ready: 2 })
  })

  it('during a publish waits for it and settles it', async () => {
    const gate = deferred()
    const world = openWorld({
      answer: async ({ messages }) => {
        await gate.promise
        return messages.map(() => ok)
      },
    })
    await world.add('orders', ...ids(3))
    world.relay.start()
    await world.runtime.advance(0)
    const stopped = world.relay.stop()
    expect(world.relay.health().state).toBe('stopping')
    await world.runtime.advance(5000)
    expect(world.publisher.calls[0]?.signal.aborted).toBe(false)
    gate.resolve()
    await stopped
    expect(await world.states()).toEqual({})
    await expectNothingLeft(world)
  })

  it('during a publish that hangs aborts it after publishTimeout, and releases the records', async () => {
    const world = openWorld({ answer: () => new Promise(() => {}), publishTimeout: 5000 })
    await world.add('orders', ...ids(3))
    world.relay.start()
    await world.runtime.advance(0)
    const stopped = world.relay.stop()
    await world.runtime.advance(4999)
    expect(world.publisher.calls[0]?.signal.aborted).toBe(false)
    await world.runtime.advance(1)
    await stopped
    expect(world.publisher.calls[0]?.signal.aborted).toBe(true)
    expect(await world.states()).toEqual({ ready: 3 })
    await expectNothingLeft(world)
  })

  it('while the store is unavailable ends immediately if nothing is in flight', async () => {
    const world = openWorld()
    world.store.before = () => {
      throw new Error('away')
    }
    world.relay.start()
    await world.runtime.advance(60_000)
    await world.relay.stop()
    await expectNothingLeft(world)
  })

  it('while outcomes cannot be stored tries until the end of the lease, not longer', async () => {
    const world = openWorld({ lease: 5000 })
    await world.add('orders', 'e1')
    world.store.before = (call) => {
      if (call === 'settle') throw new Error('away')
    }
    world.relay.start()
    await world.runtime.advance(0)
    const stopped = world.relay.stop()
    await world.runtime.advance(15_000)
    await stopped
    await expectNothingLeft(world)
  })

  it('twice, also concurrently, is the same as once', async () => {
    const world = openWorld()
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    await Promise.all([world.relay.stop(), world.relay.stop()])
    await world.relay.stop()
    await expectNothingLeft(world)
  })

  it('is what disposing does', async () => {
    const world = openWorld()
    {
      await using relay = world.relay.start()
      expect(relay.health().state).toBe('running')
      await world.runtime.advance(0)
    }
    await expectNothingLeft(world)
  })

  it('leaves no listener on the signals of the store', async () => {
    const world = openWorld()
    const signals: AbortSignal[] = []
    const { wakeUps } = world.store
    world.store.wakeUps = (options) => {
      signals.push(options.signal)
      return wakeUps(options)
    }
    world.relay.start()
    for (let i = 0; i < 20; i += 1) {
      await world.add('orders', `e${i}`)
      await world.runtime.advance(1000)
    }
    const [signal] = signals
    expect(signals).toHaveLength(1)
    expect(getEventListeners(signal as AbortSignal, 'abort').length).toBeLessThanOrEqual(3)
    await world.relay.stop()
    await world.runtime.advance(0)
    expect(getEventListeners(signal as AbortSignal, 'abort')).toEqual([])
  })

  it('is not delayed by wake-ups that ignore the signal', async () => {
    const world = openWorld()
    world.store.wakeUps = () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) })
    world.relay.start()
    await world.runtime.advance(0)
    await world.relay.stop()
    await expectNothingLeft(world)
  })
})

describe('a stop that takes longer than shutdownTimeout', () => {
  async function stopIn(world: World, duration: number): Promise<boolean> {
    let ended = false
    const stopped = world.relay.stop().then(() => {
      ended = true
    })
    await world.runtime.advance(duration - 1)
    expect(ended).toBe(false)
    await world.runtime.advance(1)
    if (ended) await stopped
    return ended
  }

  it('aborts the publishes and releases their records, even if the publisher ignores its signal', async () => {
    const world = openWorld({ answer: () => new Promise(() => {}), shutdownTimeout: 3000 })
    await world.add('orders', ...ids(3))
    await world.add('stock', ...ids(3, 's'))
    world.relay.start()
    await world.runtime.advance(0)
    expect(await stopIn(world, 3000)).toBe(true)
    const [call] = world.publisher.calls
    expect(isAckordError(call?.signal.reason, 'ACKORD_SHUTDOWN')).toBe(true)
    expect(await world.states()).toEqual({ ready: 6 })
    expect((await world.memory.get('1'))?.attempts).toBe(0)
    // A forced stop is not a fault of the destination, so nothing is logged.
    expect(world.logger.lines).toEqual([])
    expect(world.relay.health()).toMatchObject({ released: 6, leasesLost: 0 })
    await expectNothingLeft(world)
  })

  it('settles records that were confirmed in time and releases only the rest', async () => {
    const world = openWorld({
      answer: ({ destination, messages }) => (destination === 'stock' ? new Promise(() => {}) : Promise.resolve(messages.map(() => ok))),
      shutdownTimeout: 3000,
    })
    await world.add('orders', ...ids(3))
    await world.add('stock', 's1')
    world.relay.start()
    await world.runtime.advance(0)
    expect(await stopIn(world, 3000)).toBe(true)
    expect(world.relay.health()).toMatchObject({ published: 3, released: 1 })
    expect(await world.states()).toEqual({ ready: 1 })
    await expectNothingLeft(world)
  })

  it('aborts immediately, with 0', async () => {
    const world = openWorld({ answer: () => new Promise(() => {}), shutdownTimeout: 0 })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    await world.relay.stop()
    expect(await world.states()).toEqual({ ready: 1 })
    await expectNothingLeft(world)
  })

  it('never aborts, with Infinity', async () => {
    const world = openWorld({ answer: () => new Promise(() => {}), shutdownTimeout: Infinity, lease: 200_000, publishTimeout: 100_000 })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    expect(await stopIn(world, 100_000)).toBe(true)
    expect(await world.states()).toEqual({ ready: 1 })
    await expectNothingLeft(world)
  })

  it('makes one more attempt with a store that fails, not more', async () => {
    const world = openWorld({ answer: () => new Promise(() => {}), shutdownTimeout: 3000 })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    world.store.before = () => {
      throw new Error('away')
    }
    expect(await stopIn(world, 3000)).toBe(true)
    expect(world.store.count('release')).toBe(1)
    expect(world.runtime.timers).toBe(0)
    // The record waits for the lease to expire.
    expect(await world.states()).toEqual({ leased: 1 })
  })

  it('ends while outcomes are being retried', async () => {
    const world = openWorld({ shutdownTimeout: 3000 })
    await world.add('orders', 'e1')
    world.store.before = (call) => {
      if (call === 'settle') throw new Error('away')
    }
    world.relay.start()
    await world.runtime.advance(0)
    expect(await stopIn(world, 3000)).toBe(true)
    expect(
      world.logger
        .at('error')
        .map(({ text }) => text)
        .join(),
    ).toContain('will be published again')
    expect(world.runtime.timers).toBe(0)
  })

  it.each<StoreCall>(['claim', 'settle', 'release'])('gives a store that does not answer a %s two more seconds', async (hanging) => {
    const world = openWorld({
      shutdownTimeout: 3000,
      answer: ({ messages }) => (hanging === 'release' ? new Promise(() => {}) : Promise.resolve(messages.map(() => ok))),
    })
    await world.add('orders', 'e1')
    world.store.before = (call) => (call === hanging ? new Promise(() => {}) : undefined)
    world.relay.start()
    await world.runtime.advance(0)
    expect(await stopIn(world, 5000)).toBe(true)
    expect(world.runtime.timers).toBe(0)
    expect(world.relay.health()).toMatchObject({ state: 'idle', inFlight: 0 })
  })

  it('releases the records of a claim that answers after the end', async () => {
    const gate = deferred()
    const world = openWorld({ shutdownTimeout: 3000 })
    await world.add('orders', 'e1')
    world.store.before = (call) => (call === 'claim' ? gate.promise : undefined)
    world.relay.start()
    await world.runtime.advance(0)
    expect(await stopIn(world, 5000)).toBe(true)
    gate.resolve()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual([])
    expect(await world.states()).toEqual({ ready: 1 })
    expect((await world.memory.get('1'))?.attempts).toBe(0)
    expect(world.runtime.timers).toBe(0)
  })

  it('ends although everything hangs: the publisher, the store, its wake-ups and its statistics', async () => {
    const never = () => new Promise<never>(() => {})
    const world = openWorld({ answer: never })
    await world.add('orders', 'e1')
    world.store.wakeUps = () => ({ [Symbol.asyncIterator]: () => ({ next: never }) })
    Object.assign(world.store, { stats: never, deletePublished: never })
    world.store.before = (call) => (call === 'claim' ? undefined : never())
    const relay = world.another({ cleanup: true, lease: 300_000, publishTimeout: 200_000, statsInterval: 10 }).start()
    await world.runtime.advance(120_000)
    let ended = false
    const stopped = relay.stop().then(() => {
      ended = true
    })
    await world.runtime.advance(26_999)
    expect(ended).toBe(false)
    await world.runtime.advance(1)
    expect(ended).toBe(true)
    await stopped
    expect(world.runtime.timers).toBe(0)
  })

  it('leaves no listener on its signals, batch after batch', async () => {
    const signals = new Set<AbortSignal>()
    const world = openWorld({
      batchSize: 1,
      answer: async ({ messages, signal }) => {
        signals.add(signal)
        return messages.map(() => ok)
      },
    })
    const any = vi.spyOn(AbortSignal, 'any')
    await world.add('orders', ...ids(50))
    world.relay.start()
    await world.runtime.advance(0)
    expect(signals.size).toBe(50)
    // No long-lived signal is passed to AbortSignal.any() for every batch, which would add a dependent signal each time.
    const followed = any.mock.calls.flatMap(([all]) => [...all])
    any.mockRestore()
    expect(new Set(followed).size).toBe(followed.length)
    await world.relay.stop()
  })
})

describe('starting a relay', () => {
  it('twice is the same as once', async () => {
    const world = openWorld()
    await world.add('orders', 'e1')
    expect(world.relay.start()).toBe(world.relay.start())
    await world.runtime.advance(0)
    expect(world.store.calls).toEqual(['claim', 'settle'])
    await world.relay.stop()
  })

  it('again after a stop continues', async () => {
    const world = openWorld()
    world.relay.start()
    await world.relay.stop()
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['e1'])
    await world.relay.stop()
  })

  it('during a stop is rejected', async () => {
    const world = openWorld()
    world.relay.start()
    const stopped = world.relay.stop()
    try {
      world.relay.start()
      expect.unreachable()
    } catch (error) {
      expect(isAckordError(error, 'ACKORD_ALREADY_STARTED')).toBe(true)
    }
    await stopped
  })

  it('is not needed for wake(), which then does nothing', () => {
    const world = openWorld()
    world.relay.wake()
    expect(world.store.calls).toEqual([])
    expect(world.relay).toBeInstanceOf(Relay)
  })
})
