import { describe, expect, it } from 'vitest'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore, type OutboxNotes, type OutboxStore, Relay } from '../../src/index.ts'
import { event } from '../support/relay-world.ts'

/** A memory store whose notes can be made to fail. */
function openStore(runtime: VirtualRuntime, fail: () => Promise<never> | undefined) {
  const store = new MemoryOutboxStore({ runtime })
  const calls: string[] = []
  const guarded = <Args extends unknown[], R>(name: string, call: (...args: Args) => Promise<R>) => {
    return (...args: Args): Promise<R> => {
      calls.push(`${name} ${String(args[0])}`)
      return fail() ?? call(...args)
    }
  }
  const { notes } = store
  const failing: OutboxNotes = {
    put: guarded('put', (...args) => notes.put(...args)),
    read: guarded('read', (...args) => notes.read(...args)),
    delete: guarded('delete', (...args) => notes.delete(...args)),
  }
  const relayStore: OutboxStore = new Proxy(store, {
    get: (target, name) => {
      if (name === 'notes') return failing
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
  return { store, relayStore, calls }
}

async function add(store: MemoryOutboxStore, destination: string, id: string): Promise<void> {
  const transaction = store.begin()
  await store.append(transaction, [{ destination, message: event(id) }])
  transaction.commit()
}

function openRelay(store: OutboxStore, runtime: VirtualRuntime) {
  const sent: string[] = []
  const relay = new Relay(store, {
    runtime,
    statsInterval: false,
    publisher: {
      async publish(destination, messages) {
        for (const { id } of messages) sent.push(`${destination} ${id}`)
        return messages.map(() => ({ ok: true }))
      },
    },
  })
  return { relay, sent }
}

describe('a relay whose store cannot read or write notes', () => {
  it('publishes, and asks again every ten seconds', async () => {
    const runtime = new VirtualRuntime()
    let broken = true
    const { store, relayStore, calls } = openStore(runtime, () => (broken ? Promise.reject(new Error('no such table')) : undefined))
    await store.pause('paused')
    await add(store, 'orders', 'a')
    const { relay, sent } = openRelay(relayStore, runtime)
    relay.start()
    await runtime.advance(60_000)
    expect(sent).toEqual(['orders a'])
    expect(calls.filter((call) => call === 'read pause').length).toBeLessThan(10)
    broken = false
    await runtime.advance(15_000)
    await add(store, 'paused', 'b')
    await runtime.advance(15_000)
    expect(sent).toEqual(['orders a'])
    expect(await store.relays()).toHaveLength(1)
    await relay.stop()
    expect(await store.relays()).toEqual([])
  })

  it('keeps the pauses that it knows', async () => {
    const runtime = new VirtualRuntime()
    let broken = false
    const { store, relayStore } = openStore(runtime, () => (broken ? Promise.reject(new Error('refused')) : undefined))
    await store.pause('paused')
    const { relay, sent } = openRelay(relayStore, runtime)
    relay.start()
    await runtime.advance(5000)
    broken = true
    await add(store, 'paused', 'a')
    await runtime.advance(60_000)
    expect(sent).toEqual([])
    broken = false
    await store.resume('paused')
    await runtime.advance(30_000)
    expect(sent).toEqual(['paused a'])
    await relay.stop()
  })

  it('publishes and stops although the notes never answer', async () => {
    const runtime = new VirtualRuntime()
    const { store, relayStore } = openStore(runtime, () => new Promise<never>(() => {}))
    await add(store, 'orders', 'a')
    const { relay, sent } = openRelay(relayStore, runtime)
    relay.start()
    await runtime.advance(5000)
    expect(sent).toEqual(['orders a'])
    const stopped = relay.stop()
    await runtime.advance(5000)
    await stopped
  })
})
