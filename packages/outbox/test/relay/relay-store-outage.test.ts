import { describe, expect, it } from 'vitest'
import { ids, openWorld, type StoreCall } from '../support/relay-world.ts'

describe('a store that fails', () => {
  it('for a day is called less and less often, logged once, and used again when it is back', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(3))
    let down = true
    world.store.before = () => {
      if (down) throw new Error('connection refused')
    }
    world.relay.start()
    await world.runtime.advance(24 * 60 * 60 * 1000)
    expect(world.store.calls.length).toBeLessThan(30_000)
    expect(world.logger.lines.map(({ level }) => level)).toEqual(['error'])
    expect(world.relay.health()).toMatchObject({ state: 'running', store: 'down' })
    expect(world.relay.health().lastStoreError?.message).toBe('connection refused')

    down = false
    await world.runtime.advance(10_000)
    expect(world.sent()).toEqual(ids(3))
    expect(world.logger.lines.map(({ level }) => level)).toEqual(['error', 'info'])
    expect(world.relay.health().store).toBe('up')
    await world.relay.stop()
  }, 60_000)

  it('is called by one loop, however many batches, trials and renewals wait for it', async () => {
    const world = openWorld({
      concurrency: 8,
      batchSize: 1,
      answer: ({ destination, messages }) =>
        destination === 'down'
          ? Promise.resolve(messages.map(() => ({ ok: false, error: 'down', scope: 'destination' })))
          : new Promise(() => {}),
    })
    await world.add('down', ...ids(3, 'd'))
    await world.runtime.advance(0)
    world.relay.start()
    await world.runtime.advance(100)
    await world.add('orders', ...ids(8))
    await world.runtime.advance(100)
    const at: number[] = []
    world.store.before = () => {
      at.push(world.runtime.now())
      throw new Error('connection refused')
    }
    await world.runtime.advance(3_600_000)
    // All wait for the same pause, of up to ten seconds: the poll and the trials of two destinations, and at first those with a batch in flight.
    const rounds = new Set(at).size
    expect(rounds).toBeLessThan(1500)
    expect(at.length).toBeLessThan(rounds * 3 + 100)
    const lines = world.logger.lines.filter(({ text }) => text.includes('outbox store'))
    expect(lines.map(({ level }) => level)).toEqual(['error'])
    await world.relay.stop()
    expect(world.runtime.timers).toBe(0)
  })

  it('is not flooded because of wake-ups', async () => {
    const world = openWorld()
    world.store.before = () => {
      throw new Error('connection refused')
    }
    world.relay.start()
    for (let i = 0; i < 1000; i += 1) {
      world.relay.wake()
      await world.runtime.advance(1)
    }
    expect(world.store.calls.length).toBeLessThan(30)
    await world.relay.stop()
    expect(world.runtime.timers).toBe(0)
  })

  it('at the settle is retried, so that nothing is published twice', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(3))
    world.store.before = (call) => {
      if (call === 'settle' && world.store.count('settle') < 4) throw new Error('deadlock')
    }
    world.relay.start()
    await world.runtime.advance(10_000)
    expect(world.sent()).toEqual(ids(3))
    expect(world.store.count('settle')).toBe(4)
    expect(await world.states()).toEqual({})
    await world.relay.stop()
  })

  it('at the settle until the lease expires causes duplicates, never a loss', async () => {
    const world = openWorld({ lease: 3000 })
    await world.add('orders', ...ids(3))
    let down = true
    world.store.before = (call) => {
      if (down && call === 'settle') throw new Error('read only')
    }
    world.relay.start()
    await world.runtime.advance(15_000)
    down = false
    await world.runtime.advance(30_000)
    expect(world.sent().length).toBeGreaterThan(3)
    expect(new Set(world.sent())).toEqual(new Set(ids(3)))
    expect(await world.states()).toEqual({})
    expect(world.metrics.sum('ackord.outbox.lease_lost')).toBe(world.sent().length - 3)
    await world.relay.stop()
  })

  it('whose answer to a settle was lost causes no duplicate', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(3))
    world.store.after = (call) => {
      if (call === 'settle' && world.store.count('settle') === 1) throw new Error('connection lost')
    }
    world.relay.start()
    await world.runtime.advance(120_000)
    expect(world.sent()).toEqual(ids(3))
    expect(await world.states()).toEqual({})
    await world.relay.stop()
  })

  it.each<StoreCall>(['claim', 'settle'])('to answer a %s times out after a lease', async (hanging) => {
    const world = openWorld({ lease: 3000 })
    await world.add('orders', ...ids(3))
    world.store.before = (call) => (call === hanging && world.store.count(hanging) === 1 ? new Promise(() => {}) : undefined)
    world.relay.start()
    await world.runtime.advance(20_000)
    expect(new Set(world.sent())).toEqual(new Set(ids(3)))
    expect(await world.states()).toEqual({})
    await world.relay.stop()
    expect(world.runtime.timers).toBe(0)
  })

  it('that answers a claim after its time-out gets the records back', async () => {
    const world = openWorld({ lease: 3000 })
    await world.add('orders', 'e1')
    world.store.before = (call) =>
      call === 'claim' && world.store.count('claim') === 1 ? new Promise((resolve) => world.runtime.setTimeout(resolve, 3100)) : undefined
    world.relay.start()
    await world.runtime.advance(3099)
    expect(world.sent()).toEqual([])
    // If the late answer had leased the record again at 3,100, it would be free only at 6,100.
    await world.runtime.advance(2000)
    expect(world.store.count('release')).toBe(1)
    expect(world.sent()).toEqual(['e1'])
    await world.relay.stop()
  })

  it('that returns invalid answers does not end the relay', async () => {
    const world = openWorld()
    const { claim } = world.store
    world.store.claim = () => Promise.resolve(undefined as never)
    world.relay.start()
    await world.runtime.advance(3000)
    expect(world.relay.health().state).toBe('running')
    world.store.claim = claim
    await world.add('orders', 'e1')
    await world.runtime.advance(3000)
    expect(world.sent()).toEqual(['e1'])
    await world.relay.stop()
  })
})
