import type { PublishResult } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import type { RelayEvent } from '../../src/options/relay-events.ts'
import { answering, ids, openWorld } from '../support/relay-world.ts'

const ok: PublishResult = { ok: true }

/** The events, with the ids of their messages. */
function summary(event: RelayEvent): unknown[] {
  if ('records' in event) return [event.type, ...event.records.map(({ message }) => message.id)]
  if ('record' in event) return [event.type, event.record.message.id]
  return [event.type, 'destination' in event ? event.destination : undefined]
}

describe('onEvent', () => {
  it('reports what happens to records', async () => {
    const events: RelayEvent[] = []
    const world = openWorld({
      answer: answering({
        e2: { error: new Error('later') },
        e3: { error: new Error('never'), permanent: true },
        e4: { error: new Error('away'), scope: 'destination' },
      }),
      backoff: () => 60_000,
      onEvent: (event) => events.push(event),
    })
    await world.add('orders', ...ids(4))
    world.relay.start()
    await world.runtime.advance(0)
    expect(events.map(summary)).toEqual([
      ['claimed', 'e1', 'e2', 'e3', 'e4'],
      ['destinationDown', 'orders'],
      ['failed', 'e2'],
      ['published', 'e1'],
      ['parked', 'e3'],
      ['released', 'e4'],
    ])
    expect(events.find(({ type }) => type === 'failed')).toMatchObject({ error: { message: 'later' }, retryAfter: 60_000 })
    expect(events.find(({ type }) => type === 'parked')).toMatchObject({ error: { message: 'never' }, reason: 'permanent' })
    await world.relay.stop()
  })

  it('reports a destination and the store once when they go down and once when they are up', async () => {
    const events: RelayEvent[] = []
    let [brokerDown, storeDown] = [true, false]
    const world = openWorld({
      answer: async ({ messages }) => messages.map(() => (brokerDown ? { ok: false, error: 'down', scope: 'destination' } : ok)),
      onEvent: (event) => events.push(event),
    })
    world.store.before = () => {
      if (storeDown) throw new Error('away')
    }
    const changes = () => events.filter(({ type }) => /Up|Down/.test(type)).map(({ type }) => type)
    const level = (name: string, labels = {}) => world.metrics.level(`ackord.outbox.${name}`, labels)
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(3_600_000)
    expect(changes()).toEqual(['destinationDown'])
    expect(level('destination_down', { destination: 'orders' })).toBe(1)
    brokerDown = false
    await world.runtime.advance(75_000)
    expect(changes()).toEqual(['destinationDown', 'destinationUp'])
    expect(level('destination_down', { destination: 'orders' })).toBe(0)
    storeDown = true
    await world.runtime.advance(3_600_000)
    expect(level('store_down')).toBe(1)
    storeDown = false
    await world.runtime.advance(20_000)
    expect(changes().slice(2)).toEqual(['storeDown', 'storeUp'])
    expect(level('store_down')).toBe(0)
    await world.relay.stop()
  })

  it('reports lost leases', async () => {
    const events: RelayEvent[] = []
    const world = openWorld({ lease: 3000, onEvent: (event) => events.push(event) })
    await world.add('orders', 'e1')
    world.store.before = (call) => (call === 'settle' ? new Promise((resolve) => void world.runtime.setTimeout(resolve, 4000)) : undefined)
    world.relay.start()
    await world.runtime.advance(5000)
    expect(events.map(summary)).toContainEqual(['lost', 'e1'])
    world.store.before = () => {}
    const stopped = world.relay.stop()
    await world.runtime.advance(10_000)
    await stopped
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('a bug')
      },
    ],
    ['rejects', () => Promise.reject(new Error('a bug'))],
  ])('that %s changes nothing and is logged once', async (_, onEvent) => {
    const world = openWorld({ onEvent, answer: answering({ bad: { error: 'x', permanent: true } }), deadLetter: undefined })
    await world.add('orders', 'e1', 'bad', 'e2')
    world.relay.start()
    await world.runtime.advance(60_000)
    expect(world.sent()).toEqual(['e1', 'bad', 'e2'])
    expect(await world.states()).toEqual({ parked: 1 })
    expect(world.logger.at('error')).toHaveLength(1)
    await world.relay.stop()
  })

  it('must be a function', () => {
    expect(() => openWorld({ onEvent: {} as never })).toThrow('onEvent must be a function')
  })
})

describe('the metrics of a relay', () => {
  it('include attempts, durations and the reason for parking, with labels of low cardinality', async () => {
    const world = openWorld({
      answer: async ({ messages }) => {
        await new Promise<void>((resolve) => void world.runtime.setTimeout(resolve, 70))
        return messages.map(({ id }) => (id === 'bad' ? { ok: false, error: 'never', permanent: true } : ok))
      },
    })
    world.store.before = (call) =>
      call === 'claim' || call === 'settle' ? new Promise((resolve) => void world.runtime.setTimeout(resolve, 20)) : undefined
    await world.add('orders', 'e1', 'bad')
    world.relay.start()
    await world.runtime.advance(200)
    expect(world.metrics.sum('ackord.outbox.attempts')).toBe(2)
    expect(world.metrics.labels('ackord.outbox.parked')).toEqual([{ destination: 'orders', reason: 'permanent' }])
    expect(world.metrics.observed.get('ackord.outbox.claim_duration')?.[0]).toBe(20)
    expect(world.metrics.observed.get('ackord.outbox.publish_duration')).toEqual([70])
    expect(world.metrics.observed.get('ackord.outbox.settle_duration')).toEqual([20])
    const stopped = world.relay.stop()
    await world.runtime.advance(100)
    await stopped
  })
})
