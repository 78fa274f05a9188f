import { MemoryBroker, Message, type Publisher, silentLogger } from '@ackord/core'
import { MemoryOutboxStore } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { assertPublished } from '../../src/helpers/assertions.ts'
import { inlineRelay } from '../../src/helpers/inline-relay.ts'
import { VirtualRuntime } from '../../src/helpers/virtual-runtime.ts'

function record(id: string, destination: string, options: { readonly partitionkey?: string; readonly delay?: number } = {}) {
  const { partitionkey, delay } = options
  const attributes = {
    id,
    type: 'order.placed',
    source: '/orders',
    specversion: '1.0',
    ...(partitionkey === undefined ? {} : { partitionkey }),
  }
  return { destination, message: new Message(new TextEncoder().encode('{}'), attributes), delay }
}

async function storeWith(options: ConstructorParameters<typeof MemoryOutboxStore>[0], ...records: ReturnType<typeof record>[]) {
  const store = new MemoryOutboxStore(options)
  const transaction = store.begin()
  await store.append(transaction, records)
  transaction.commit()
  return store
}

const idsOf = (events: readonly { readonly message: Message }[]) => events.map(({ message }) => message.id)

describe('inlineRelay', () => {
  it('publishes all due records, in order, returns them, and leaves no timer', async () => {
    const runtime = new VirtualRuntime()
    const store = await storeWith({ runtime }, record('1', 'a'), record('2', 'b'), record('3', 'a'), record('4', 'a', { delay: 1000 }))
    const broker = new MemoryBroker({ history: 10, runtime, logger: silentLogger })
    const relay = inlineRelay(store, broker, { batchSize: 2 })
    const published = await relay.drain()
    expect(idsOf(published).toSorted()).toEqual(['1', '2', '3'])
    expect(broker.published('a').map(({ id }) => id)).toEqual(['1', '3'])
    expect(runtime.timers).toBe(0)
    await runtime.advance(1000)
    expect(idsOf(await relay.drain())).toEqual(['4'])
    expect(await relay.drain()).toEqual([])
    expect((await store.stats()).destinations).toEqual([])
    await assertPublished(published, { id: '2', destination: 'b' })
  })

  it('does not see uncommitted records', async () => {
    const store = new MemoryOutboxStore()
    await store.append(store.begin(), [record('1', 'a')])
    expect(await inlineRelay(store, new MemoryBroker({ logger: silentLogger })).drain()).toEqual([])
  })

  it('publishes the rest when some are refused, reports which, and leaves those unchanged', async () => {
    const store = await storeWith({}, record('1', 'a'), record('2', 'down'), record('3', 'a'))
    const broker = new MemoryBroker({ history: 10, logger: silentLogger })
    broker.fail('down', new Error('the broker is away'))
    const relay = inlineRelay(store, broker)
    const error = await relay.drain().catch((reason: unknown) => reason)
    expect(error).toMatchObject({
      message: "The publisher refused 1 of the records, which stay in the outbox: order.placed '2' to 'down'.",
      errors: [{ message: 'the broker is away' }],
    })
    expect(broker.published('a').map(({ id }) => id)).toEqual(['1', '3'])
    expect((await store.list({}, { limit: 10 })).records).toMatchObject([{ state: 'ready', attempts: 0, destination: 'down' }])
    broker.fail('down', undefined)
    expect(idsOf(await relay.drain())).toEqual(['2'])
  })

  it('treats a publisher that throws, or answers only for some messages, as one that refuses', async () => {
    for (const publish of [() => Promise.reject(new Error('broken')), async () => []]) {
      const store = await storeWith({}, record('1', 'a'))
      await expect(inlineRelay(store, { publish } as Publisher).drain()).rejects.toThrow('The publisher refused 1 of the records')
      expect((await store.stats()).destinations).toMatchObject([{ ready: 1 }])
    }
  })

  it('keeps the order of a key: records behind a refused one are not sent', async () => {
    const store = await storeWith(
      { order: 'perKey' },
      record('1', 'a', { partitionkey: 'k' }),
      record('2', 'a', { partitionkey: 'k' }),
      record('3', 'a', { partitionkey: 'other' }),
    )
    const sent: string[] = []
    let refusing = true
    const publisher: Publisher = {
      async publish(_, messages) {
        return messages.map(({ id = '' }) => {
          if (id === '1' && refusing) return { ok: false, error: new Error('not now') }
          sent.push(id)
          return { ok: true }
        })
      },
    }
    const relay = inlineRelay(store, publisher)
    await expect(relay.drain()).rejects.toThrow('The publisher refused 2 of the records')
    expect(sent).toEqual(['3'])
    refusing = false
    await relay.drain()
    expect(sent).toEqual(['3', '1', '2'])
  })

  it('rejects invalid arguments', () => {
    const store = new MemoryOutboxStore()
    const broker = new MemoryBroker({ logger: silentLogger })
    expect(() => inlineRelay(store, {} as Publisher)).toThrow('publisher).publish must be a function')
    expect(() => inlineRelay(store, broker, { lease: 0 })).toThrow('lease must be a number of milliseconds')
    // @ts-expect-error a caller without types
    expect(() => inlineRelay(store, broker, { batch: 1 })).toThrow("inlineRelay() has no option 'batch'")
  })
})
