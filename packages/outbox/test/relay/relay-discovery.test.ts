import { isAckordError, type Publisher } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { recordingLogger } from '../../../core/test/support/recording-logger.ts'
import { deferred, recordingPublisher } from '../../../core/test/support/router-world.ts'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore, type RelayDiscoveryOptions, RelayGroup, type RelayGroupOptions } from '../../src/index.ts'
import type { ClaimOptions } from '../../src/store/outbox-store.ts'
import { event, WatchedStore } from '../support/relay-world.ts'

/** Stores of tenants, which a group finds. */
function openWorld({
  discover,
  ...options
}: Omit<Partial<RelayGroupOptions>, 'discover'> & { readonly discover?: Partial<RelayDiscoveryOptions> } = {}) {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const publisher = recordingPublisher()
  const memories = new Map<string, MemoryOutboxStore>()
  const stores = new Map<string, WatchedStore>()
  const asked = new Map<string, ClaimOptions[]>()
  const opened: string[] = []
  const closed: string[] = []
  const names = new Set<string>()
  let most = 0
  const open = async (name: string) => {
    opened.push(name)
    most = Math.max(most, opened.length - closed.length)
    return { store: watch(name), close: () => void closed.push(name) }
  }
  const group = new RelayGroup(
    {},
    {
      publisher,
      runtime,
      logger,
      ...options,
      discover: {
        names: () => names,
        open,
        ...discover,
      },
    },
  )

  function memoryOf(name: string): MemoryOutboxStore {
    const memory = memories.get(name) ?? new MemoryOutboxStore({ runtime })
    memories.set(name, memory)
    return memory
  }

  function watch(name: string): WatchedStore {
    const store = new WatchedStore(memoryOf(name))
    const { claim } = store
    store.claim = (given) => {
      asked.set(name, [...(asked.get(name) ?? []), given])
      return claim(given)
    }
    stores.set(name, store)
    return store
  }

  async function add(name: string, ...ids: readonly string[]): Promise<void> {
    const memory = memoryOf(name)
    const transaction = memory.begin()
    await memory.append(
      transaction,
      ids.map((id) => ({ destination: name, message: event(id) })),
    )
    await transaction.commit()
  }

  const sent = (name: string) =>
    publisher.calls.filter(({ destination }) => destination === name).flatMap(({ messages }) => messages.map(({ id }) => id ?? ''))
  return { runtime, logger, publisher, group, names, add, sent, watch, stores, asked, opened, closed, most: () => most }
}

describe('a group of relays that finds its stores', () => {
  it('publishes from a store that appears while it runs, and releases one that is gone', async () => {
    const { group, names, add, sent, opened, closed, runtime } = openWorld()
    group.start()
    await runtime.advance(0)
    expect(group.health()).toEqual({ state: 'running', stores: {} })
    for (const name of ['a', 'b']) names.add(name)
    await add('a', 'a1')
    await runtime.advance(10_000)
    expect([sent('a'), Object.keys(group.health().stores)]).toEqual([['a1'], ['a', 'b']])
    names.delete('a')
    await runtime.advance(10_000)
    expect([Object.keys(group.health().stores), closed]).toEqual([['b'], ['a']])
    await add('a', 'a2')
    names.add('a')
    await runtime.advance(10_000)
    expect([sent('a'), opened]).toEqual([
      ['a1', 'a2'],
      ['a', 'b', 'a'],
    ])
    await group.stop()
    expect(closed).toEqual(['a', 'b', 'a'])
    expect(group.health()).toEqual({ state: 'idle', stores: {} })
    await add('b', 'b1')
    group.start()
    await runtime.advance(0)
    expect(sent('b')).toEqual(['b1'])
    await group.stop()
    expect(runtime.timers).toBe(0)
  })

  it('serves the others while a store cannot be opened, does not answer an open, or refuses connections', async () => {
    const hanging = deferred()
    let broken = true
    const world = openWorld({
      discover: {
        names: () => ['hangs', 'sick', 'throws', 'well'],
        async open(name) {
          if (name === 'hangs' && broken) await hanging.promise
          if (name === 'throws' && broken) throw new Error('no such database')
          const store = world.watch(name)
          if (name === 'sick')
            store.before = () => {
              if (broken) throw new Error('connect ECONNREFUSED')
            }
          return { store, close: () => void world.closed.push(name) }
        },
      },
    })
    const { group, add, sent, closed, logger, runtime } = world
    for (const name of ['hangs', 'sick', 'throws', 'well']) await add(name, `${name}1`)
    group.start()
    await runtime.advance(100)
    expect(sent('well')).toEqual(['well1'])
    await runtime.advance(30_000)
    expect(group.health().stores['sick']?.store).toBe('down')
    await add('well', 'well2')
    await runtime.advance(15_000)
    expect(sent('well')).toEqual(['well1', 'well2'])
    const failed = logger.at('error').filter(({ text }) => text.startsWith('A store could not be opened'))
    expect(failed.map(({ fields }) => fields)).toMatchObject([{ store: 'throws' }, { store: 'hangs' }])
    broken = false
    hanging.resolve()
    await runtime.advance(70_000)
    for (const name of ['hangs', 'sick', 'throws']) expect(sent(name)).toEqual([`${name}1`])
    // The open that came too late was closed, each of its tries.
    expect(new Set(closed)).toEqual(new Set(['hangs']))
    await group.stop()
  })

  it('keeps its stores while their names cannot be read', async () => {
    let answer: () => Iterable<string> | Promise<Iterable<string>> = () => ['a']
    const { group, add, sent, closed, logger, runtime } = openWorld({ discover: { names: () => answer() } })
    expect(group.health().state).toBe('idle')
    group.start()
    await runtime.advance(0)
    const failures = [
      () => {
        throw new Error('down')
      },
      () => new Promise<never>(() => {}),
      () => [''],
      () => 'abc',
    ]
    for (const failure of failures) {
      answer = failure
      await runtime.advance(21_000)
    }
    await add('a', 'a1')
    await runtime.advance(15_000)
    expect([sent('a'), closed]).toEqual([['a1'], []])
    answer = () => []
    await runtime.advance(21_000)
    expect(closed).toEqual(['a'])
    expect(logger.at('warn')).toHaveLength(1)
    await group.stop()
  })

  it('never has more than maxOpen stores open, and serves all of them in turns', async () => {
    const { group, names, add, sent, most, logger, runtime } = openWorld({
      discover: { maxOpen: 3, interval: 1000 },
    })
    const all = Array.from({ length: 10 }, (_, index) => `t${index}`)
    for (const name of all) {
      names.add(name)
      await add(name, `${name}-1`)
    }
    group.start()
    await runtime.advance(5000)
    for (const name of all) expect(sent(name)).toEqual([`${name}-1`])
    for (const name of all) await add(name, `${name}-2`)
    await runtime.advance(5000)
    for (const name of all) expect(sent(name)).toEqual([`${name}-1`, `${name}-2`])
    expect(most()).toBe(3)
    expect(logger.at('warn')).toMatchObject([{ fields: { stores: 10, maxOpen: 3 } }])
    await group.stop()
  })

  it('divides totalBytes again when stores come and go', async () => {
    const { group, names, asked, runtime } = openWorld({ totalBytes: 1_200_000 })
    group.start()
    const latest = () => asked.get('a')?.at(-1)?.maxBytes
    const seen: unknown[] = []
    for (const step of ['a', 'b', 'c', undefined]) {
      if (step === undefined) for (const name of ['b', 'c']) names.delete(name)
      else names.add(step)
      await runtime.advance(40_000)
      seen.push(latest())
    }
    expect(seen).toEqual([600_000, 300_000, 200_000, 600_000])
    await group.stop()
  })

  it('polls an idle store less often than a relay of its own would', async () => {
    const { group, names, asked, runtime } = openWorld()
    names.add('a')
    group.start()
    await runtime.advance(120_000)
    const before = asked.get('a')?.length ?? 0
    await runtime.advance(120_000)
    expect((asked.get('a')?.length ?? 0) - before).toBeLessThanOrEqual(12)
    await group.stop()
  })

  it('stops while a store is being opened, and closes it when it is open', async () => {
    const gate = deferred()
    const world = openWorld({
      discover: {
        names: () => ['slow'],
        async open(name) {
          await gate.promise
          return { store: world.watch(name), close: () => void world.closed.push(name) }
        },
      },
    })
    world.group.start()
    await world.runtime.advance(1)
    const stopping = world.group.stop()
    gate.resolve()
    await world.runtime.advance(0)
    await stopping
    expect(world.closed).toEqual(['slow'])
    expect(world.stores.get('slow')?.calls).toEqual([])
  })
})

describe('add() and remove() of a group of relays', () => {
  it('start the relay of a new store, and stop that of another gracefully', async () => {
    const { group, add, sent, watch, stores, runtime } = openWorld()
    group.add('a', watch('a'))
    group.start()
    group.add('b', watch('b'))
    await add('a', 'a1')
    await add('b', 'b1')
    group.wake()
    await runtime.advance(600)
    expect([sent('a'), sent('b')]).toEqual([['a1'], ['b1']])
    expect(() => group.add('b', watch('other'))).toThrow("stores has a store 'b' already.")
    const removing = [group.remove('b'), group.remove('b'), group.remove('c')]
    await runtime.advance(10)
    expect(await Promise.all(removing)).toEqual([true, true, false])
    await add('b', 'b2')
    await runtime.advance(60_000)
    expect([sent('b'), Object.keys(group.health().stores)]).toEqual([['b1'], ['a']])
    const again = stores.get('b')
    if (again === undefined) throw new Error('There is no store b.')
    group.add('b', again)
    await runtime.advance(0)
    expect(sent('b')).toEqual(['b1', 'b2'])
    await group.stop()
    expect(Object.keys(group.health().stores)).toEqual(['a', 'b'])
  })
})

describe('the options of the discovery', () => {
  const publisher: Publisher = { publish: async () => [] }
  const discover = { names: () => [], open: async () => ({ store: new MemoryOutboxStore() }) }

  it.each([
    [{ discover: { ...discover, names: undefined } }, 'discover.names must be a function; it is undefined.'],
    [{ discover: { ...discover, interval: 0 } }, 'discover.interval must be a number of milliseconds, 1 or more; it is 0.'],
    [{ discover: { ...discover, maxOpen: 0 } }, 'discover.maxOpen must be a whole number, 1 or more; it is 0.'],
    [{ discover: { ...discover, every: 1 } }, "discover has no option 'every'. Check the spelling."],
    [{ discover, batchSize: 0 }, 'batchSize must be a whole number, 1 or more; it is 0.'],
  ])('are validated before a store is found, case %$', (options, message) => {
    let thrown: unknown
    try {
      new RelayGroup({}, { publisher, ...options } as never)
    } catch (error) {
      thrown = error
    }
    expect(isAckordError(thrown, 'ACKORD_INVALID_OPTION')).toBe(true)
    expect((thrown as Error).message).toBe(message)
  })
})
