import { Message, type PublishResult, type RawMessage } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { recordingPublisher } from '../../../core/test/support/router-world.ts'
import type { MapRecord } from '../../src/options/relay-events.ts'
import { event, ids, openWorld, records } from '../support/relay-world.ts'

const idsOf = (publisher: { readonly calls: readonly { readonly messages: readonly RawMessage[] }[] }) =>
  publisher.calls.flatMap(({ messages }) => messages.map(({ id }) => id))

describe('publishers by destination', () => {
  it('receive the records of their destinations, and other destinations are left for other relays', async () => {
    const [orders, audit] = [recordingPublisher(), recordingPublisher()]
    const world = openWorld({ publisher: { orders, audit } })
    await world.add('orders', ...ids(2))
    await world.add('audit', ...ids(2, 'a'))
    await world.add('other', ...ids(2, 'o'))
    world.relay.start()
    await world.runtime.advance(60_000)
    expect(idsOf(orders)).toEqual(['e1', 'e2'])
    expect(idsOf(audit)).toEqual(['a1', 'a2'])
    expect((await records(world)).map(({ destination, attempts }) => [destination, attempts])).toEqual(Array(2).fill(['other', 0]))

    const rest = recordingPublisher()
    const other = world.another({ publisher: { orders, '*': rest } }).start()
    await world.runtime.advance(0)
    expect(idsOf(rest)).toEqual(['o1', 'o2'])
    expect(await world.states()).toEqual({})
    await world.relay.stop()
    await other.stop()
  })

  it('may be restricted by destinations', async () => {
    const [orders, rest] = [recordingPublisher(), recordingPublisher()]
    const world = openWorld({ publisher: { orders, '*': rest }, destinations: ['orders', 'stock'] })
    for (const destination of ['orders', 'stock', 'audit']) await world.add(destination, destination)
    world.relay.start()
    await world.runtime.advance(0)
    expect([idsOf(orders), idsOf(rest)]).toEqual([['orders'], ['stock']])
    expect(await world.states()).toEqual({ ready: 1 })
    await world.relay.stop()
  })

  it('may have names that every object has', async () => {
    const named = recordingPublisher()
    const world = openWorld({ publisher: { orders: recordingPublisher(), publish: named } })
    await world.add('toString', 's1')
    await world.add('publish', 'p1')
    world.relay.start()
    await world.runtime.advance(60_000)
    expect(idsOf(named)).toEqual(['p1'])
    expect((await records(world)).map(({ destination }) => destination)).toEqual(['toString'])
    await world.relay.stop()
  })

  it.each([
    [{}, 'publisher must have a publish method, or be a map'],
    [new Map(), 'publisher must have a publish method, or be a map'],
    ['amqp://', 'publisher must have a publish method, or be a map'],
    [null, 'publisher must have a publish method, or be a map'],
    [{ orders: {} }, "publisher['orders'].publish must be a function"],
    [{ orders: undefined }, "publisher['orders'].publish must be a function"],
    [{ '': recordingPublisher() }, 'publisher, the name of a destination,'],
  ])('are rejected at construction when they are invalid: %o', (publisher, text) => {
    expect(() => openWorld({ publisher: publisher as never })).toThrow(text)
  })

  it('must exist for all destinations that the relay is configured to serve', () => {
    const text = "destinations names 'stock', for which the publisher map has no entry"
    expect(() => openWorld({ publisher: { orders: recordingPublisher() }, destinations: ['orders', 'stock'] })).toThrow(text)
  })

  it('that lack one for a claimed record leave it pending, with no attempt counted, and one log line lists the existing ones', async () => {
    const orders = recordingPublisher()
    const world = openWorld({ publisher: { orders } })
    // A store that ignores the requested destinations.
    world.store.claim = ({ destinations: _, ...options }) => world.memory.claim(options)
    await world.add('stock', 's1')
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(10_000)
    expect(idsOf(orders)).toEqual(['e1'])
    expect(await records(world)).toMatchObject([{ state: 'ready', attempts: 0 }])
    const [line, ...more] = world.logger.at('warn')
    expect(more).toEqual([])
    expect(line?.fields).toMatchObject({
      err: { message: expect.stringContaining("no publisher for 'stock'; it has publishers for 'orders'") },
    })
    await world.relay.stop()
  })
})

describe('map', () => {
  it('changes the message and its destination name, and nothing in the store', async () => {
    const seen: unknown[] = []
    const map: MapRecord = ({ destination, message, attempts, createdAt }) => {
      seen.push([destination, attempts, createdAt])
      return { destination: `prod.${destination}`, message: message.withAttributes({ tenant: 'acme' }) }
    }
    const world = openWorld({ map, retain: true })
    await world.add('orders', 'e1')
    const now = world.runtime.now()
    world.relay.start()
    await world.runtime.advance(0)
    expect(seen).toEqual([['orders', 1, now]])
    const [call] = world.publisher.calls
    expect(call?.destination).toBe('prod.orders')
    expect(call?.messages[0]?.attributes).toEqual({ ...event('e1').attributes, tenant: 'acme' })
    expect(call?.messages[0]?.data).toEqual(event('e1').data)
    const [record] = await records(world)
    expect(record).toMatchObject({ destination: 'orders', state: 'published' })
    expect(record?.message.attributes).toEqual(event('e1').attributes)
    await world.relay.stop()
  })

  it.each([undefined, {}])('changes nothing when it returns %o', async (result) => {
    const world = openWorld({ map: () => result })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.publisher.calls.map(({ destination }) => destination)).toEqual(['orders'])
    expect(world.publisher.calls[0]?.messages[0]?.attributes).toEqual(event('e1').attributes)
    await world.relay.stop()
  })

  it('makes one call per name, and a failure under one name is a failure of the destination in the store', async () => {
    const world = openWorld({
      map: ({ message }) => ({ destination: message.id?.startsWith('a') ? 'topic-a' : 'topic-b' }),
      answer: async ({ destination, messages }) =>
        messages.map((): PublishResult => (destination === 'topic-b' ? { ok: false, error: 'gone', scope: 'destination' } : { ok: true })),
    })
    await world.add('orders', 'a1', 'b1', 'a2', 'b2')
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.publisher.calls.map(({ destination, messages }) => [destination, messages.length])).toEqual([
      ['topic-a', 2],
      ['topic-b', 2],
    ])
    expect((await records(world)).map(({ message, attempts }) => [message.id, attempts])).toEqual([
      ['b1', 0],
      ['b2', 0],
    ])
    expect(world.relay.health()).toMatchObject({ downDestinations: ['orders'], published: 2 })
    await world.relay.stop()
  })

  const broken: [string, MapRecord, string][] = [
    [
      'throws',
      () => {
        throw new Error('no tenant')
      },
      'map() failed for it: no tenant',
    ],
    ['returns a promise', (async () => ({})) as never, 'returned an instance of Promise'],
    ['returns null', () => null as never, 'returned null'],
    ['returns no name', () => ({ destination: '' }), 'the destination must be a non-empty string'],
    ['returns no bytes', () => ({ message: new Message({ a: 1 }, event('bad').attributes) as never }), 'bytes as its data'],
    ['changes the id', ({ message }) => ({ message: message.withAttributes({ id: 'another' }) }), 'must keep its id'],
  ]

  it.each(broken)('that %s for a record parks that record immediately, and the others are published', async (_, map, text) => {
    const dead = recordingPublisher()
    const world = openWorld({
      map: (record) => (record.message.id === 'bad' ? map(record) : undefined),
      deadLetter: { publisher: dead, destination: 'dead' },
    })
    await world.add('orders', 'e1', 'bad', 'e2')
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['e1', 'e2'])
    const [record, ...others] = await records(world)
    expect(others).toEqual([])
    expect(record).toMatchObject({ state: 'parked', attempts: 1 })
    expect(record?.lastError).toContain(text)
    expect(dead.calls[0]?.messages.map(({ id }) => id)).toEqual(['bad'])
    await world.relay.stop()
  })

  it('is not called for a record that may crash its relays', async () => {
    const world = openWorld({
      maxAttempts: 1,
      map: () => {
        throw new Error('called')
      },
    })
    await world.add('orders', 'e1')
    await world.memory.claim({ limit: 1, lease: 10 })
    await world.runtime.advance(11)
    world.relay.start()
    await world.runtime.advance(0)
    expect((await records(world))[0]?.lastError).toContain('never settled')
    await world.relay.stop()
  })
})

describe('a record with an expirytime', () => {
  async function open(options: Parameters<typeof openWorld>[0] = {}) {
    const world = openWorld(options)
    const add = (id: string, expirytime: string) => world.addMessages('orders', [event(id).withAttributes({ expirytime })])
    const at = (offset: number) => new Date(world.runtime.now() + offset).toISOString()
    return { world, add, at }
  }

  it('that has passed is parked and not published, with an error and a copy in the dead letter', async () => {
    const dead = recordingPublisher()
    const { world, add, at } = await open({ deadLetter: { publisher: dead, destination: 'dead' } })
    await add('late', at(0))
    await add('early', at(1))
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['early'])
    const [record] = await records(world)
    expect(record).toMatchObject({ state: 'parked', attempts: 1 })
    expect(record?.lastError).toContain('it has expired')
    expect(dead.calls[0]?.messages[0]?.attributes).toMatchObject({ id: 'late', deadlettercode: 'ACKORD_MESSAGE_EXPIRED' })
    expect(world.metrics.labels('ackord.outbox.parked')).toEqual([{ destination: 'orders', reason: 'expired' }])
    await world.relay.stop()
  })

  it('that passes while its destination is down is parked at its next attempt; the others wait', async () => {
    let down = true
    const { world, add, at } = await open({
      answer: async ({ messages }) => messages.map(() => (down ? { ok: false, error: 'down', scope: 'destination' } : { ok: true })),
    })
    for (const id of ids(5, 'late')) await add(id, at(30_000))
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(3_600_000)
    expect(await world.states()).toEqual({ parked: 5, ready: 1 })
    expect(world.logger.lines.filter(({ text }) => text.includes('A destination'))).toHaveLength(1)
    down = false
    await world.runtime.advance(75_000)
    expect(world.sent().at(-1)).toBe('e1')
    expect(await world.states()).toEqual({ parked: 5 })
    await world.relay.stop()
  })

  it('that is invalid is published', async () => {
    const { world } = await open()
    await world.add('orders', 'e1')
    // As if it had been written into the table by other code.
    world.store.claim = async (options) =>
      (await world.memory.claim(options)).map((record) => ({
        ...record,
        message: record.message.withAttributes({ expirytime: 'tomorrow' }),
      }))
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['e1'])
    await world.relay.stop()
  })
})
