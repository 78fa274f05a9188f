import { randomUUID } from 'node:crypto'
import { type Publisher, silentLogger } from '@ackord/core'
import { expect, it } from 'vitest'
import type { Broker } from '../../src/brokers/broker.ts'
import { openMemory } from '../../src/brokers/open-broker.ts'
import { type DemoReport, demo } from '../../src/demo/demo.ts'
import { Secrets } from '../../src/output/secrets.ts'
import { openRunStore } from '../../src/stores/open-store.ts'
import type { Store } from '../../src/stores/store.ts'

const topics = { orders: 'orders', events: 'events' }

async function runDemo(change: { store?: (store: Store) => Store; broker?: (broker: Broker) => Broker }): Promise<DemoReport> {
  await using store = await openRunStore('sqlite:', { name: `ackord-demo-${randomUUID().slice(0, 8)}`, secrets: new Secrets() })
  await using broker = openMemory(silentLogger)
  return await demo({
    orders: 60,
    store: change.store?.(store) ?? store,
    broker: change.broker?.(broker) ?? broker,
    topics,
    signal: AbortSignal.timeout(50_000),
    onStep() {},
    onProgress() {},
  })
}

it.concurrent('reports no fault if there is none', async () => {
  const report = await runDemo({})
  expect(report).toMatchObject({ orders: 60, applied: 60, events_published: 60, lost: 0, applied_twice: 0 })
  // The killed service had published events that it could not settle.
  expect(report.repeated_events).toBeGreaterThan(0)
})

it.concurrent('detects orders that are applied twice, with an inbox that forgets at a restart', async () => {
  const report = await runDemo({
    store: (store) => ({ ...store, transactional: (options) => store.transactional({ ...options, consumer: randomUUID() }) }),
  })
  expect(report.applied_twice).toBeGreaterThan(0)
  expect(report.applied).toBe(60 + report.applied_twice)
})

it.concurrent('detects a lost event, with a broker that confirms one and does not keep it', async () => {
  let dropped = false
  const forgetful = (publisher: Publisher): Publisher => ({
    async publish(destination, messages, options) {
      if (destination !== topics.events || dropped) return await publisher.publish(destination, messages, options)
      dropped = true
      return [{ ok: true }, ...(await publisher.publish(destination, messages.slice(1), options))]
    },
  })
  const report = await runDemo({ broker: (broker) => ({ ...broker, publisher: forgetful(broker.publisher) }) })
  expect(report).toMatchObject({ applied: 60, events_published: 59, lost: 1, applied_twice: 0 })
}, 60_000)
