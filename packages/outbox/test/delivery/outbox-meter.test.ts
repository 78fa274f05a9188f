import type { MetricLabels } from '@ackord/core'
import { guardMetrics } from '@ackord/core/internal'
import { expect, it } from 'vitest'
import { OutboxMeter } from '../../src/delivery/relay-observer.ts'

function recording() {
  const gauges = new Map<string, number>()
  const ignore = () => {}
  const gauge = (name: string, value: number, labels: MetricLabels) =>
    void gauges.set(`${name} ${Object.values(labels).join(' ')}`.trim(), value)
  return { gauges, meter: new OutboxMeter(guardMetrics({ count: ignore, observe: ignore, gauge })) }
}

const counts = { ready: 0, waiting: 0, leased: 0, parked: 0, published: 0 }
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
