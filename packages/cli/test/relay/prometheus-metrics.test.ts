import { expect, it } from 'vitest'
import { PrometheusMetrics } from '../../src/relay/prometheus-metrics.ts'

it('formats counters, gauges and histograms as text, durations in seconds', () => {
  const metrics = new PrometheusMetrics()
  metrics.count('ackord.outbox.published', 2, { destination: 'a' })
  metrics.count('ackord.outbox.published', 3, { destination: 'a' })
  metrics.count('ackord.outbox.published', 1, { destination: 'say "hi"\\\n' })
  metrics.gauge('ackord.outbox.lag', 1500, {})
  metrics.gauge('ackord.outbox.store_down', 1, {})
  metrics.gauge('ackord.outbox.store_down', 0, {})
  metrics.observe('ackord.outbox.publish_duration', 4, { destination: 'a' })
  metrics.observe('ackord.outbox.publish_duration', 20_000, { destination: 'a' })
  const lines = metrics.format().split('\n')
  expect(lines).toEqual(
    expect.arrayContaining([
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
    ]),
  )
  expect(lines).toContain('ackord_outbox_publish_duration_seconds_sum{destination="a"} 20.004')
})
