import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  commandHandler,
  defineEvent,
  eventHandler,
  jsonMarshaler,
  MemoryBroker,
  marshal,
  type Publisher,
  systemRuntime,
} from '@ackord/core'
import { claimCheck, collectObjects, encrypted, fileObjects, type KeyRing, type ObjectStore, type PayloadCodec } from '@ackord/core/payload'
import { describe, expect, it } from 'vitest'
import { until } from '../pipeline/until.ts'
import { type PayloadServiceOptions, type PayloadStoreKind, payloadStores } from './payload-stores.ts'

interface Order {
  readonly id: string
  readonly customer: string
  readonly lines: readonly string[]
}

const placeOrder = defineEvent<Order>('order.place')
const orderPlaced = defineEvent<Order>('order.placed')

const customer = 'Jane Roe, 4111-1111-1111-1111'

function orderOf(id: string): Order {
  return { id, customer, lines: Array.from({ length: 200 }, (_, index) => `${index} × a chair`) }
}

/** A ring with a key per customer, which can be forgotten. */
class CustomerKeys implements KeyRing {
  readonly current = 'common'
  readonly #keys = new Map<string, Uint8Array | 'forgotten'>([['common', randomBytes(32)]])

  get(id: string): Uint8Array | 'forgotten' | undefined {
    return this.#keys.get(id)
  }

  getOrCreate(id: string): Uint8Array | 'forgotten' {
    const key = this.#keys.get(id) ?? randomBytes(32)
    this.#keys.set(id, key)
    return key
  }

  forget(id: string): void {
    this.#keys.set(id, 'forgotten')
  }
}

/** A publisher that adds an attribute to what the outbox has stored, as one that is traced does. */
function traced(publisher: Publisher): Publisher {
  return {
    publish: (destination, messages, options) =>
      publisher.publish(
        destination,
        messages.map((message) => message.withAttributes({ traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' })),
        options,
      ),
  }
}

/**
 * A shop that answers each `order.place` with an `order.placed`, and a service that writes invoices, both on one store, with a broker in memory between them.
 * The data of events is encrypted, and stored in a directory.
 */
async function openWorld(kind: PayloadStoreKind, wrap: (objects: ObjectStore) => ObjectStore = (objects) => objects) {
  const directory = await mkdtemp(join(tmpdir(), 'ackord-payload-'))
  const store = await kind.open()
  const objects = fileObjects(directory)
  const keys = new CustomerKeys()
  const codecs: readonly PayloadCodec[] = [
    encrypted({ keys, keyFor: ({ subject }) => subject }),
    claimCheck({ store: wrap(objects), above: 1024, keyPrefix: 'orders/' }),
  ]
  const broker = new MemoryBroker({ history: 100 })
  const common = { codecs, eventSource: '/shop', destination: 'order-events', relay: { pollInterval: 20 } } as const
  const invoices: Order[] = []

  return {
    store,
    objects,
    keys,
    codecs,
    broker,
    invoices,
    openShop: (options: Partial<PayloadServiceOptions> = {}) =>
      store.createService({
        ...common,
        consumer: 'shop',
        source: broker.source('orders'),
        handlers: [
          commandHandler({ type: placeOrder, source: '/shop' }, async (order) => {
            await store.save(order.id)
            return [orderPlaced(order, { subject: 'jane' })]
          }),
        ],
        router: { redeliveryDelay: () => 10 },
        concurrency: 5,
        publisher: traced(broker),
        ...options,
      }),
    openInvoices: () =>
      store.createService({
        ...common,
        consumer: 'invoices',
        source: broker.source('order-events', { deadLetter: 'dead' }),
        handlers: [
          eventHandler({ type: orderPlaced }, async (order) => {
            invoices.push(order)
            await store.save(`invoice ${order.id}`)
          }),
        ],
      }),
    /** Sent by somebody without codecs: both kinds of messages are read. */
    send: async (...ids: readonly string[]) => {
      const commands = ids.map((id) => marshal(placeOrder(orderOf(id), { id: `m-${id}`, source: '/website' }), jsonMarshaler))
      await broker.publish('orders', commands)
    },
    files: async () => (await readdir(join(directory, 'orders')).catch(() => [])).map((name) => join(directory, 'orders', name)),
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]()
      await rm(directory, { recursive: true })
    },
  }
}

/** Whether the customer or a line of an order can be read in these bytes. */
function isReadable(bytes: Uint8Array): boolean {
  return ['4111', 'a chair'].some((text) => Buffer.from(bytes).includes(text))
}

describe.concurrent.each(payloadStores)('on $name', (kind) => {
  it('an order that is encrypted and stored as an object goes from one service to another', async () => {
    await using world = await openWorld(kind)
    const { store, broker, invoices, files } = world
    world.openShop().service.start()
    world.openInvoices().service.start()
    await world.send('o-1', 'o-2')
    await until(async () => (await store.orders()).length === 4, 'the invoices are written')
    expect(await store.orders()).toEqual(['invoice o-1', 'invoice o-2', 'o-1', 'o-2'])
    expect(invoices.toSorted((one, other) => one.id.localeCompare(other.id))).toEqual([orderOf('o-1'), orderOf('o-2')])

    const events = broker.published('order-events')
    expect(events.map(({ dataContentType, subject }) => [dataContentType, subject])).toEqual([
      ['application/vnd.ackord.claim-check', 'jane'],
      ['application/vnd.ackord.claim-check', 'jane'],
    ])
    expect(events.every(({ data, attributes }) => data.byteLength < 1024 && attributes['traceparent'] !== undefined)).toBe(true)
    const stored = await Promise.all((await files()).map((file) => readFile(file)))
    expect(stored).toHaveLength(2)
    expect([...stored, ...events.map(({ data }) => data)].filter(isReadable)).toEqual([])
  })

  it('a transaction that is rolled back leaves an object, which collectObjects() deletes', async () => {
    await using world = await openWorld(kind)
    const { store, objects, files } = world
    const { service, write } = world.openShop({ publisher: undefined })
    const refused = new Error('no stock')
    await expect(
      write(async (append) => {
        await append(orderPlaced(orderOf('o-1'), { subject: 'jane' }))
        throw refused
      }),
    ).rejects.toBe(refused)
    expect(await files()).toHaveLength(1)
    await write((append) => append(orderPlaced(orderOf('o-2')), orderPlaced(orderOf('o-3'))))
    const { records } = await service.outbox.list({}, { limit: 10 })
    expect(records).toHaveLength(2)
    expect(records.filter(({ message }) => isReadable(message.data))).toEqual([])
    expect(await files()).toHaveLength(3)

    const day = 86_400_000
    const tomorrow = { ...systemRuntime, now: () => systemRuntime.now() + day }
    expect(await collectObjects({ store: objects, olderThan: day + 3_600_000, runtime: tomorrow })).toBe(0)
    expect(await collectObjects({ store: objects, olderThan: day - 3_600_000, runtime: tomorrow })).toBe(3)
    expect(await store.orders()).toEqual([])
  })

  it('an object store that hangs rolls the transaction back at the codecTimeout, and the message is handled once when it works again', async () => {
    let calls = 0
    const signals: AbortSignal[] = []
    await using world = await openWorld(kind, (objects) => ({
      ...objects,
      async put(_key, _bytes, { signal }) {
        calls += 1
        if (calls > 2) return
        signals.push(signal)
        // It ignores its signal, too.
        await new Promise(() => {})
      },
    }))
    const { store, broker } = world
    world.openShop({ codecTimeout: 50, router: { maxDeliveries: 2, redeliveryDelay: () => 10 } }).service.start()
    await world.send('o-1')
    await until(async () => broker.published('order-events').length === 1, 'the event is published')
    expect(await store.orders()).toEqual(['o-1'])
    // The third delivery is one too many, if those without an attempt count.
    expect(calls).toBe(3)
    expect(signals.map(({ aborted, reason }) => [aborted, reason.code])).toEqual([
      [true, 'ACKORD_CODEC_FAILED'],
      [true, 'ACKORD_CODEC_FAILED'],
    ])
  })

  it('a message whose event cannot be encoded fails alone, and is handled when the key is there', async () => {
    const blocked = new Set(['o-2'])
    await using world = await openWorld(kind)
    const { store, broker, codecs } = world
    const guarded: PayloadCodec = {
      async encode(message) {
        const { id } = jsonMarshaler.unmarshal(message.data, undefined) as Order
        if (blocked.delete(id)) throw new Error('the key server is not reachable')
        return message
      },
      decode: (message) => message,
    }
    world.openShop({ codecs: [guarded, ...codecs] }).service.start()
    world.openInvoices().service.start()
    await world.send('o-1', 'o-2', 'o-3', 'o-4', 'o-5')
    await until(async () => (await store.orders()).length === 10, 'the invoices are written')
    expect(new Set(await store.orders()).size).toBe(10)
    expect(broker.published('order-events')).toHaveLength(5)
    expect(blocked.size).toBe(0)
  })

  it('an event of a customer whose key was forgotten goes to the dead letter as it was sent', async () => {
    await using world = await openWorld(kind)
    const { store, keys, broker, invoices } = world
    world.openShop().service.start()
    await world.send('o-1')
    await until(async () => broker.published('order-events').length === 1, 'the event is published')
    keys.forget('jane')
    world.openInvoices().service.start()
    await until(async () => broker.published('dead').length === 1, 'the event is a dead letter')
    const [event] = broker.published('order-events')
    const [letter] = broker.published('dead')
    expect(letter?.data).toEqual(event?.data)
    expect(letter?.attributes).toMatchObject({ ...event?.attributes, deadlettercode: 'ACKORD_KEY_FORGOTTEN' })
    expect(invoices).toEqual([])
    expect(await store.orders()).toEqual(['o-1'])
  })
})
