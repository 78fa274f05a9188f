import { readdirSync, readFileSync } from 'node:fs'
import { Message, type MetricLabels } from '@ackord/core'
import { guardMetrics } from '@ackord/core/internal'
import { expect, it } from 'vitest'
import { OutboxMeter, type OutboxTotals } from '../../src/delivery/relay-observer.ts'
import { outboxMetrics } from '../../src/options/outbox-metrics.ts'
import type { ClaimedRecord } from '../../src/store/outbox-store.ts'

function recording() {
  const gauges = new Map<string, number>()
  const ignore = () => {}
  const gauge = (name: string, value: number, labels: MetricLabels) =>
    void gauges.set(`${name} ${Object.values(labels).join(' ')}`.trim(), value)
  return { gauges, meter: new OutboxMeter(guardMetrics({ count: ignore, observe: ignore, gauge })) }
}

const counts = { ready: 0, waiting: 0, leased: 0, parked: 0, published: 0, oldestAge: 5 }
const urls = ['https://a:secret1@host/x?token=1', 'https://b:secret2@host/x?token=2']

it('sums the records of destinations that share a label', () => {
  const { meter, gauges } = recording()
  const destinations = urls.map((destination, index) => ({ destination, ...counts, ready: index + 1 }))
  meter.backlog({ destinations, oldestAge: 5 })
  expect(gauges.get('ackord.outbox.records https://host/x?… ready')).toBe(3)
  expect([...gauges.keys()].join()).not.toContain('secret')
  meter.backlog({ destinations: [], oldestAge: undefined })
  expect(gauges.get('ackord.outbox.records https://host/x?… ready')).toBe(0)
})

it('reports a label as down while one of its destinations is', () => {
  const { meter, gauges } = recording()
  const [first = '', second = ''] = urls
  const shown = () => gauges.get('ackord.outbox.destination_down https://host/x?…')
  meter.destinationDown(first, true)
  meter.destinationDown(second, true)
  meter.destinationDown(first, false)
  expect(shown()).toBe(1)
  meter.destinationDown(second, false)
  expect(shown()).toBe(0)
})

it('emits every described metric, with its kind and its labels, and no other', () => {
  const seen = new Map<string, { readonly kind: string; readonly labels: readonly string[] }>()
  const see = (kind: string) => (name: string, _: number, labels: MetricLabels) =>
    void seen.set(name, { kind, labels: Object.keys(labels).sort() })
  const meter = new OutboxMeter({ count: see('counter'), observe: see('histogram'), gauge: see('gauge') })
  const record: ClaimedRecord = {
    id: '1',
    token: 't',
    destination: 'orders',
    attempts: 1,
    createdAt: 0,
    age: 0,
    message: new Message(new Uint8Array(), { id: '1', type: 'order.placed', source: '/test', specversion: '1.0' }),
  }
  for (const what of Object.keys(meter.totals) as (keyof OutboxTotals)[])
    meter.count(what, [record], what === 'parked' ? { reason: 'expired' } : {})
  meter.attempts('orders', 1)
  meter.batch(1)
  meter.duration('claim', 1)
  meter.duration('settle', 1)
  meter.publishDuration(1, 'orders')
  meter.delivered([{ record }], [{ ok: true }], { destination: 'orders', sinceClaim: 1 })
  meter.destinationDown('orders', true)
  meter.storeDown(true)
  meter.backlog({ destinations: [{ destination: 'orders', ...counts }], oldestAge: 5 })
  const described = Object.entries(outboxMetrics).map(([name, { kind, labels }]) => [name, { kind, labels: Object.keys(labels).sort() }])
  expect(Object.fromEntries(seen)).toEqual(Object.fromEntries(described))
})

it('is the only part of a relay that emits metrics', () => {
  const sources = new URL('../../src/', import.meta.url)
  const emitting = ['delivery', 'relay', 'source', 'options', 'store'].flatMap((room) =>
    readdirSync(new URL(`${room}/`, sources)).filter((file) =>
      /\.(count|gauge|observe)\(\s*['`]ackord\./.test(readFileSync(new URL(`${room}/${file}`, sources), 'utf8')),
    ),
  )
  expect(emitting).toEqual(['relay-observer.ts'])
})
