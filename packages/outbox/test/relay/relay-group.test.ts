import { isAckordError, type Publisher, type SharedPorts } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { recordingLogger } from '../../../core/test/support/recording-logger.ts'
import { deferred, recordingPublisher } from '../../../core/test/support/router-world.ts'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore, type RelayEvent, RelayGroup, type RelayGroupOptions } from '../../src/index.ts'
import type { ClaimOptions } from '../../src/store/outbox-store.ts'
import { type Answer, event, ids, recordingMetrics, WatchedStore } from '../support/relay-world.ts'

interface TestStore {
  readonly memory: MemoryOutboxStore
  readonly store: WatchedStore
  /** What each claim asked for. */
  readonly asked: ClaimOptions[]
  /** Commits events with these ids; the destination is the name of the store. */
  add(...ids: readonly string[]): Promise<void>
  left(): Promise<number>
}

function openStore(name: string, runtime: VirtualRuntime): TestStore {
  const memory = new MemoryOutboxStore({ runtime })
  const store = new WatchedStore(memory)
  const asked: ClaimOptions[] = []
  const { claim } = store
  store.claim = (options) => {
    asked.push(options)
    return claim(options)
  }
  return {
    memory,
    store,
    asked,
    async add(...added) {
      const transaction = memory.begin()
      await memory.append(
        transaction,
        added.map((id) => ({ destination: name, message: event(id) })),
      )
      await transaction.commit()
    },
    async left() {
      const { destinations } = await memory.stats()
      return destinations.reduce((sum, { ready, leased }) => sum + ready + leased, 0)
    },
  }
}

function openGroup(
  names: readonly string[],
  { answer, ...options }: Partial<RelayGroupOptions> & { readonly answer?: (runtime: VirtualRuntime) => Answer } = {},
) {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const metrics = recordingMetrics()
  const publisher = recordingPublisher(answer?.(runtime))
  const stores = Object.fromEntries(names.map((name) => [name, openStore(name, runtime)]))
  const group = new RelayGroup(Object.fromEntries(names.map((name) => [name, stores[name]?.store as WatchedStore])), {
    publisher,
    runtime,
    logger,
    metrics,
    ...options,
  })
  const sent = (destination: string) =>
    publisher.calls.filter((call) => call.destination === destination).flatMap(({ messages }) => messages.map(({ id }) => id ?? ''))
  const storeOf = (name: string) => {
    const found = stores[name]
    if (found === undefined) throw new Error(`There is no store '${name}'.`)
    return found
  }
  return { runtime, logger, metrics, publisher, group, sent, storeOf }
}

/** A publisher that takes this long for each call. */
function takes(duration: number): (runtime: VirtualRuntime) => Answer {
  return (runtime) =>
    async ({ messages }) => {
      await new Promise<void>((resolve) => void runtime.setTimeout(resolve, duration))
      return messages.map(() => ({ ok: true }))
    }
}

describe('a group of relays', () => {
  it('publishes the records of all stores, and polls them all when it is woken', async () => {
    const { group, storeOf, sent, runtime } = openGroup(['orders', 'billing'])
    await storeOf('orders').add('o1', 'o2')
    await storeOf('billing').add('b1')
    group.start().start()
    await runtime.advance(0)
    expect([sent('orders'), sent('billing')]).toEqual([['o1', 'o2'], ['b1']])
    await storeOf('orders').add('o3')
    await storeOf('billing').add('b2')
    group.wake()
    await runtime.advance(0)
    expect([sent('orders'), sent('billing')]).toEqual([
      ['o1', 'o2', 'o3'],
      ['b1', 'b2'],
    ])
    await group.stop()
  })

  it('publishes the ten records of a store while another one has a long backlog', async () => {
    const { group, storeOf, sent, runtime } = openGroup(['huge', 'small'], {
      totalConcurrency: 1,
      concurrency: 4,
      batchSize: 10,
      answer: takes(5),
    })
    await storeOf('huge').add(...ids(5000))
    group.start()
    await runtime.advance(100)
    const before = sent('huge').length
    await storeOf('small').add(...ids(10, 's'))
    await runtime.advance(12)
    expect(sent('small')).toHaveLength(10)
    // The batch that was being published, and at most one more before it; not the four that were waiting.
    expect(sent('huge').length - before).toBeLessThanOrEqual(30)
    expect(await storeOf('huge').left()).toBeGreaterThan(4000)
    const stopping = group.stop()
    await runtime.advance(1000)
    await stopping
  })

  it('divides the publishes evenly, also if one store has more batches in flight', async () => {
    const { group, storeOf, publisher, runtime } = openGroup(['a', 'b', 'c'], {
      totalConcurrency: 1,
      concurrency: 4,
      batchSize: 10,
      answer: takes(5),
    })
    await storeOf('a').add(...ids(3000))
    for (const name of ['b', 'c']) await storeOf(name).add(...ids(500))
    group.start()
    await runtime.advance(600)
    const counts = ['a', 'b', 'c'].map((name) => publisher.calls.filter(({ destination }) => destination === name).length)
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(4)
    expect(Math.min(...counts)).toBeGreaterThan(30)
    const stopping = group.stop()
    await runtime.advance(1000)
    await stopping
  })

  it('publishes at most totalConcurrency batches at once', async () => {
    let now = 0
    let most = 0
    const names = ids(12, 'store')
    const { group, storeOf, runtime } = openGroup(names, {
      totalConcurrency: 3,
      batchSize: 10,
      answer: (clock) => async (call) => {
        now += 1
        most = Math.max(most, now)
        const results = await takes(5)(clock)(call)
        now -= 1
        return results
      },
    })
    for (const name of names) await storeOf(name).add(...ids(50))
    group.start()
    await runtime.advance(2000)
    expect(most).toBe(3)
    for (const name of names) expect(await storeOf(name).left()).toBe(0)
    await group.stop()
  })

  it.each(['claim', 'settle'] as const)('is not delayed by a store that does not answer a %s', async (hanging) => {
    const { group, storeOf, sent, runtime } = openGroup(['sick', 'well'], { totalConcurrency: 1, batchSize: 10 })
    storeOf('sick').store.before = async (call) => {
      if (call === hanging) await new Promise<never>(() => {})
    }
    await storeOf('sick').add(...ids(50))
    await storeOf('well').add(...ids(50, 'w'))
    group.start()
    await runtime.advance(10)
    expect(sent('well')).toHaveLength(50)
    await storeOf('well').add('w51')
    await runtime.advance(5000)
    expect(sent('well')).toHaveLength(51)
    const stopping = group.stop()
    await runtime.advance(60_000)
    await stopping
  })

  it('is not delayed by a store that refuses connections, and reports which one is down', async () => {
    const { group, storeOf, sent, runtime, logger, metrics } = openGroup(['sick', 'well'], { totalConcurrency: 1 })
    const refused = new Error('connect ECONNREFUSED')
    storeOf('sick').store.before = () => {
      throw refused
    }
    await storeOf('well').add('w1')
    group.start()
    await runtime.advance(10)
    expect(sent('well')).toEqual(['w1'])
    const { state, stores } = group.health()
    expect({ state, sick: stores['sick']?.store, well: stores['well']?.store }).toEqual({ state: 'running', sick: 'down', well: 'up' })
    expect(stores['sick']?.lastStoreError).toBe(refused)
    expect(logger.at('error')).toMatchObject([{ fields: { store: 'sick' } }])
    expect(metrics.level('ackord.outbox.store_down', { store: 'sick' })).toBe(1)
    storeOf('sick').store.before = () => {}
    await storeOf('sick').add('s1')
    await runtime.advance(20_000)
    expect(sent('sick')).toEqual(['s1'])
    await group.stop()
  })

  it('ends the turn of a batch whose destination hangs after a tenth of a second', async () => {
    const gate = deferred()
    const { group, storeOf, sent, runtime } = openGroup(['hangs', 'well'], {
      totalConcurrency: 1,
      answer:
        () =>
        async ({ destination, messages }) => {
          if (destination === 'hangs') await gate.promise
          return messages.map(() => ({ ok: true }))
        },
    })
    await storeOf('hangs').add('h1')
    group.start()
    await runtime.advance(1)
    await storeOf('well').add('w1')
    await runtime.advance(50)
    expect(sent('well')).toEqual([])
    await runtime.advance(60)
    expect(sent('well')).toEqual(['w1'])
    gate.resolve()
    await group.stop()
  })

  it('divides totalBytes by the number of stores, and never exceeds maxBatchBytes per claim', async () => {
    const asks = async (count: number, options: Partial<RelayGroupOptions>) => {
      const names = ids(count, 'store')
      const { group, storeOf, runtime } = openGroup(names, options)
      group.start()
      await runtime.advance(0)
      await group.stop()
      return new Set(names.map((name) => storeOf(name).asked[0]?.maxBytes))
    }
    expect(await asks(2, {})).toEqual(new Set([16_777_216]))
    expect(await asks(4, {})).toEqual(new Set([8_388_608]))
    expect(await asks(4, { concurrency: 2, totalBytes: 1_600_000 })).toEqual(new Set([100_000]))
    expect(await asks(1, { totalBytes: 1_000_000, maxBatchBytes: 1000 })).toEqual(new Set([1000]))
  })
})

describe('what a group of relays reports', () => {
  it('has the name of the store in metrics, log lines, events and health', async () => {
    const events: [string, RelayEvent['type']][] = []
    const { group, storeOf, metrics, logger, runtime } = openGroup(['orders', 'billing'], {
      onEvent: ({ type }, store) => void events.push([store, type]),
      map: ({ destination }) => {
        if (destination === 'billing') throw new Error('No name.')
        return undefined
      },
    })
    await storeOf('orders').add('o1', 'o2')
    await storeOf('billing').add('b1')
    group.start()
    await runtime.advance(0)
    expect(metrics.labels('ackord.outbox.published')).toEqual([{ destination: 'orders', store: 'orders' }])
    expect(metrics.labels('ackord.outbox.parked')).toEqual([{ destination: 'billing', reason: 'unmapped', store: 'billing' }])
    expect(logger.at('warn')).toMatchObject([{ fields: { store: 'billing', parked: 1 } }])
    expect(events.sort()).toEqual([
      ['billing', 'claimed'],
      ['billing', 'parked'],
      ['orders', 'claimed'],
      ['orders', 'published'],
    ])
    const { stores } = group.health()
    expect([stores['orders']?.published, stores['billing']?.parked]).toEqual([2, 1])
    await group.stop()
  })

  it('has no store where it is about a publisher, which all stores share', () => {
    const logger = recordingLogger()
    const inherited: SharedPorts[] = []
    // As `PartPorts` does: the ports of the first user are kept.
    const publisher: Publisher = { publish: async () => [], inheritPorts: (ports) => void inherited.push(ports) }
    const metrics = recordingMetrics()
    new RelayGroup({ a: new MemoryOutboxStore(), b: new MemoryOutboxStore() }, { publisher, logger, metrics })
    const [first] = inherited
    first?.logger?.info({ broker: 'rabbit' }, 'connected')
    first?.metrics?.count('ackord.outbox.attempts', 1, {})
    expect(logger.lines).toMatchObject([{ text: 'connected', fields: { broker: 'rabbit' } }])
    expect(logger.lines[0]?.fields).not.toHaveProperty('store')
    expect(metrics.labels('ackord.outbox.attempts')).toEqual([{}])
  })
})

describe('stopping a group of relays', () => {
  it('finishes what is being published, releases what waits for its turn, and reports that it stops', async () => {
    const { group, storeOf, sent, runtime } = openGroup(['a', 'b', 'c'], { totalConcurrency: 1, answer: takes(50) })
    for (const name of ['a', 'b', 'c']) await storeOf(name).add(`${name}1`)
    group.start()
    await runtime.advance(10)
    expect(['a', 'b', 'c'].flatMap(sent)).toEqual(['a1'])
    const stopping = group.stop()
    expect(group.health().state).toBe('stopping')
    expect(() => group.start()).toThrow('The relays are stopping.')
    await runtime.advance(100)
    await stopping
    expect(group.health().state).toBe('idle')
    expect(['a', 'b', 'c'].flatMap(sent)).toEqual(['a1'])
    expect(await Promise.all(['a', 'b', 'c'].map((name) => storeOf(name).left()))).toEqual([0, 1, 1])
    for (const name of ['b', 'c']) expect(storeOf(name).store.count('release')).toBe(1)
    // No turn was lost with the batches that were released.
    group.start()
    await runtime.advance(1000)
    expect(['a', 'b', 'c'].flatMap(sent)).toEqual(['a1', 'b1', 'c1'])
    await group[Symbol.asyncDispose]()
  })

  it('has no effect before the start', async () => {
    const { group } = openGroup(['a'])
    await group.stop()
    expect(group.health().state).toBe('idle')
  })
})

describe('the options of a group of relays', () => {
  const publisher: Publisher = { publish: async () => [] }
  const store = new MemoryOutboxStore()

  it.each([
    [{}, {}, 'stores must be a map from names to stores, with at least one entry; it is a plain object.'],
    [{ '': store }, {}, 'stores, the name of a store, must be a non-empty string; it is "".'],
    [{ a: {} }, {}, "stores['a'].claim must be a function; it is undefined."],
    [{ a: store, b: store }, {}, "stores has the same store twice: as 'a' and as 'b'."],
    [{ a: store }, { totalConcurrency: 0 }, 'totalConcurrency must be a whole number, 1 or more; it is 0.'],
    [{ a: store }, { totalBytes: 1.5 }, 'totalBytes must be a whole number, 1 or more; it is 1.5.'],
    [{ a: store }, { concurrency: 0 }, 'concurrency must be a whole number, 1 or more; it is 0.'],
    [{ a: store }, { onEvent: 'no' }, 'onEvent must be a function; it is "no".'],
    [{ a: store }, { totalConcurency: 2 }, "A reader of an outbox has no option 'totalConcurency'. Check the spelling."],
  ])('are validated, case %$', (stores, options, message) => {
    let thrown: unknown
    try {
      new RelayGroup(stores as never, { publisher, ...options } as never)
    } catch (error) {
      thrown = error
    }
    expect(isAckordError(thrown, 'ACKORD_INVALID_OPTION')).toBe(true)
    expect((thrown as Error).message).toBe(message)
  })
})
