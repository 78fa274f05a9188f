import { readFileSync } from 'node:fs'
import { metricTable } from '@ackord/core/internal'
import { outboxMetrics } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { PrometheusMetrics } from '../../src/relay/prometheus-metrics.ts'
import { parsePrometheusText } from '../support/prometheus-text.ts'

describe('the metrics of a relay', () => {
  it('are formatted as text, durations in seconds', () => {
    const metrics = new PrometheusMetrics(outboxMetrics)
    metrics.count('ackord.outbox.published', 2, { destination: 'a' })
    metrics.count('ackord.outbox.published', 3, { destination: 'a' })
    metrics.count('ackord.outbox.published', 1, { destination: 'say "hi"\\\n' })
    metrics.gauge('ackord.outbox.lag', 1500, {})
    metrics.gauge('ackord.outbox.store_down', 1, {})
    metrics.gauge('ackord.outbox.store_down', 0, {})
    metrics.observe('ackord.outbox.publish_duration', 4, { destination: 'a' })
    metrics.observe('ackord.outbox.publish_duration', 20_000, { destination: 'a' })
    metrics.observe('ackord.outbox.batch_size', 7, {})
    const lines = metrics.format().split('\n')
    expect(lines).toEqual(
      expect.arrayContaining([
        '# HELP ackord_outbox_published_total Records that were published and settled.',
        '# TYPE ackord_outbox_published_total counter',
        'ackord_outbox_published_total{destination="a"} 5',
        'ackord_outbox_published_total{destination="say \\"hi\\"\\\\\\n"} 1',
        '# TYPE ackord_outbox_lag_seconds gauge',
        'ackord_outbox_lag_seconds 1.5',
        'ackord_outbox_store_down 0',
        '# TYPE ackord_outbox_publish_duration_seconds histogram',
        'ackord_outbox_publish_duration_seconds_bucket{destination="a",le="0.001"} 0',
        'ackord_outbox_publish_duration_seconds_bucket{destination="a",le="0.005"} 1',
        'ackord_outbox_publish_duration_seconds_bucket{destination="a",le="10"} 1',
        'ackord_outbox_publish_duration_seconds_bucket{destination="a",le="+Inf"} 2',
        'ackord_outbox_publish_duration_seconds_count{destination="a"} 2',
        'ackord_outbox_publish_duration_seconds_sum{destination="a"} 20.004',
        'ackord_outbox_batch_size_bucket{le="10"} 1',
      ]),
    )
    const labels = parsePrometheusText(metrics.format())
      .get('ackord_outbox_published_total')
      ?.samples.map((sample) => sample.labels['destination'])
    expect(labels).toEqual(['a', 'say "hi"\\\n'])
  })

  it('all exist before anything has happened, those without a destination with the value 0', () => {
    const families = parsePrometheusText(new PrometheusMetrics(outboxMetrics).format())
    expect(families.size).toBe(Object.keys(outboxMetrics).length)
    for (const [name, { labels }] of Object.entries(outboxMetrics)) {
      const family = [...families.keys()].find((each) => each.startsWith(name.replaceAll('.', '_')))
      const samples = families.get(family ?? '')?.samples ?? []
      if ('destination' in labels) expect(samples).toEqual([])
      else expect(samples.length, name).toBeGreaterThan(0)
      expect(samples.every(({ value }) => value === 0)).toBe(true)
    }
  })

  it('have a series for each value of each label as soon as a destination is known', () => {
    const metrics = new PrometheusMetrics(outboxMetrics)
    metrics.count('ackord.outbox.attempts', 1, { destination: 'orders' })
    const families = parsePrometheusText(metrics.format())
    for (const { name, samples } of families.values()) expect(samples.length, name).toBeGreaterThan(0)
    const valuesOf = (name: string, label: string) => families.get(name)?.samples.map(({ labels }) => labels[label])
    expect(valuesOf('ackord_outbox_parked_total', 'reason')).toEqual([
      'permanent',
      'attempts',
      'unsettled',
      'expired',
      'unmapped',
      'behind',
    ])
    expect(valuesOf('ackord_outbox_records', 'state')).toEqual(['ready', 'waiting', 'leased', 'parked', 'published'])
    expect(families.get('ackord_outbox_attempts_total')?.samples).toEqual([
      { name: 'ackord_outbox_attempts_total', labels: { destination: 'orders' }, value: 1 },
    ])
  })

  it('count in the series that was there before, in whichever order labels are given', () => {
    const metrics = new PrometheusMetrics(outboxMetrics)
    metrics.count('ackord.outbox.parked', 1, { destination: 'orders', reason: 'expired' })
    metrics.count('ackord.outbox.parked', 1, { reason: 'expired', destination: 'orders' })
    const { samples = [] } = parsePrometheusText(metrics.format()).get('ackord_outbox_parked_total') ?? {}
    expect(samples.length).toBe(6)
    expect(samples.filter(({ value }) => value > 0)).toEqual([
      { name: 'ackord_outbox_parked_total', labels: { destination: 'orders', reason: 'expired' }, value: 2 },
    ])
  })

  it('have no series with a label whose values are not known, until one is', () => {
    const labels = { script: 'any', result: ['ok', 'failed'] } as const
    const metrics = new PrometheusMetrics({
      calls: { ...outboxMetrics['ackord.outbox.store_down'], kind: 'counter', help: 'Calls.', labels, from: 'store' },
    })
    expect(metrics.format()).toBe('# HELP calls_total Calls.\n# TYPE calls_total counter\n')
    metrics.count('calls', 1, { script: 'claim', result: 'ok' })
    expect(metrics.format()).toContain('\ncalls_total{result="ok",script="claim"} 1\n')
  })

  it('have the names that the alert rules of the guide use', () => {
    const guide = readFileSync(new URL('../../../../docs/guides/operating.md', import.meta.url), 'utf8')
    const used = [...guide.matchAll(/\backord_outbox_[a-z_]+/g)].map(([name]) => name)
    expect(used.length).toBeGreaterThan(5)
    const families = parsePrometheusText(new PrometheusMetrics(outboxMetrics).format())
    expect(used.filter((name) => !families.has(name))).toEqual([])
  })

  it('have the buckets of the table, in seconds for durations', () => {
    const metrics = new PrometheusMetrics(outboxMetrics)
    metrics.observe('ackord.outbox.delivery_delay', 90_000, { destination: 'orders' })
    const families = parsePrometheusText(metrics.format())
    const histograms = Object.entries(outboxMetrics).filter(([, { kind }]) => kind === 'histogram')
    expect(histograms.length).toBeGreaterThan(3)
    for (const [name, { unit, buckets = [] }] of histograms) {
      const family = families.get(`${name.replaceAll('.', '_')}${unit === 'milliseconds' ? '_seconds' : ''}`)
      const bounds = family?.samples.flatMap(({ labels }) => labels['le'] ?? [])
      expect(bounds, name).toEqual([...buckets.map(String), '+Inf'])
    }
    const delay = families.get('ackord_outbox_delivery_delay_seconds')?.samples ?? []
    expect(delay.find(({ labels }) => labels['le'] === '60')?.value).toBe(0)
    expect(delay.find(({ labels }) => labels['le'] === '300')?.value).toBe(1)
    expect(delay.find(({ name }) => name.endsWith('_sum'))?.value).toBe(90)
  })

  it('that were not announced are described by the table all the same', () => {
    const metrics = new PrometheusMetrics({})
    metrics.observe('ackord.outbox.script_duration', 2, { script: 'claim' })
    const { help, samples = [] } = parsePrometheusText(metrics.format()).get('ackord_outbox_script_duration_seconds') ?? {}
    expect(help).toBe(metricTable['ackord.outbox.script_duration'].help)
    expect(samples.filter(({ value }) => value === 0).map(({ labels }) => labels['le'])).toEqual(['0.0005', '0.001'])
  })

  it('are rejected by the parser of these tests without a description', () => {
    const metrics = new PrometheusMetrics({})
    metrics.count('ackord.outbox.invented', 1, {})
    expect(metrics.format()).toBe('# TYPE ackord_outbox_invented_total counter\nackord_outbox_invented_total 1\n')
    expect(() => parsePrometheusText(metrics.format())).toThrow('Expected HELP and TYPE')
  })
})
