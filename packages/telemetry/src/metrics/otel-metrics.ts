import type { MetricLabels, Metrics } from '@ackord/core'
import { type MetricDescription, metricTable } from '@ackord/core/internal'
import type { MeterProvider, MetricOptions } from '@opentelemetry/api'
import { version } from '../version.ts'
import { MeterInstruments } from './meter-instruments.ts'
import { SummedCounter } from './summed-counter.ts'

const descriptions: Readonly<Record<string, MetricDescription>> = metricTable

/** The metrics port on OpenTelemetry. Kind, unit, buckets and description of each metric come from the table of all metrics. */
export function otelMetrics(meterProvider: MeterProvider | undefined): Metrics {
  const instruments = new MeterInstruments(meterProvider, () => gauge('ackord.build_info', 1, { version }))

  function gauge(name: string, value: number, labels: MetricLabels): void {
    instruments.get(name, (meter) => meter.createGauge(name, optionsOf(name))).record(exported(name, value), labels)
  }

  return {
    count(name, amount, labels) {
      if (instruments.isOn()) instruments.get(name, (meter) => new SummedCounter(meter, name, optionsOf(name))).add(amount, labels)
    },
    observe(name, value, labels) {
      if (!instruments.isOn()) return
      instruments.get(name, (meter) => meter.createHistogram(name, optionsOf(name))).record(exported(name, value), labels)
    },
    gauge(name, value, labels) {
      if (instruments.isOn()) gauge(name, value, labels)
    },
  }
}

/** Metrics of the application, which are not in the table, have their name only. */
function optionsOf(name: string): MetricOptions {
  const description = descriptions[name]
  if (description === undefined) return {}
  const { unit, help, buckets } = description
  return {
    description: help,
    ...(unit === 'milliseconds' ? { unit: 's' } : {}),
    ...(buckets === undefined ? {} : { advice: { explicitBucketBoundaries: [...buckets] } }),
  }
}

function exported(name: string, value: number): number {
  return descriptions[name]?.unit === 'milliseconds' ? value / 1000 : value
}
