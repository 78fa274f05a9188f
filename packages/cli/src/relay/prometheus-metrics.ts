import type { MetricLabels, Metrics } from '@ackord/core'

/** Upper bounds; seconds for durations, records for sizes. */
const durationBounds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const sizeBounds = [1, 5, 10, 50, 100, 250, 500, 1000, 5000]

interface Histogram {
  readonly labels: MetricLabels
  readonly bounds: readonly number[]
  readonly buckets: number[]
  sum: number
  count: number
}

interface Value {
  readonly labels: MetricLabels
  value: number
}

/**
 * Metrics in the format of Prometheus. By its conventions durations, which the library reports in milliseconds, are in seconds, and counters end in
 * `_total`.
 */
export class PrometheusMetrics implements Metrics {
  readonly #counters = new Map<string, Map<string, Value>>()
  readonly #gauges = new Map<string, Map<string, Value>>()
  readonly #histograms = new Map<string, Map<string, Histogram>>()

  count(name: string, amount: number, labels: MetricLabels): void {
    entryOf(this.#counters, `${metricName(name)}_total`, labels).value += amount
  }

  gauge(name: string, value: number, labels: MetricLabels): void {
    const seconds = name.endsWith('.lag')
    entryOf(this.#gauges, `${metricName(name)}${seconds ? '_seconds' : ''}`, labels).value = seconds ? value / 1000 : value
  }

  observe(name: string, value: number, labels: MetricLabels): void {
    const seconds = name.endsWith('_duration')
    const bounds = seconds ? durationBounds : sizeBounds
    const family = familyOf(this.#histograms, `${metricName(name)}${seconds ? '_seconds' : ''}`)
    const key = labelText(labels)
    const histogram = family.get(key) ?? { labels, bounds, buckets: bounds.map(() => 0), sum: 0, count: 0 }
    family.set(key, histogram)
    const shown = seconds ? value / 1000 : value
    histogram.sum += shown
    histogram.count += 1
    for (const [index, bound] of bounds.entries()) if (shown <= bound) histogram.buckets[index] = (histogram.buckets[index] ?? 0) + 1
  }

  /** In the text format, version 0.0.4. */
  format(): string {
    const lines: string[] = []
    for (const [kind, families] of [
      ['counter', this.#counters],
      ['gauge', this.#gauges],
    ] as const) {
      for (const [name, values] of families) {
        lines.push(`# TYPE ${name} ${kind}`)
        for (const { labels, value } of values.values()) lines.push(`${name}${labelText(labels)} ${value}`)
      }
    }
    for (const [name, histograms] of this.#histograms) {
      lines.push(`# TYPE ${name} histogram`)
      for (const histogram of histograms.values()) lines.push(...histogramLines(name, histogram))
    }
    return lines.length === 0 ? '' : `${lines.join('\n')}\n`
  }
}

function histogramLines(name: string, { labels, bounds, buckets, sum, count }: Histogram): readonly string[] {
  const bucket = (bound: string, amount: number | undefined) => `${name}_bucket${labelText({ ...labels, le: bound })} ${amount ?? 0}`
  return [
    ...bounds.map((bound, index) => bucket(String(bound), buckets[index])),
    bucket('+Inf', count),
    `${name}_sum${labelText(labels)} ${sum}`,
    `${name}_count${labelText(labels)} ${count}`,
  ]
}

function familyOf<T>(families: Map<string, Map<string, T>>, name: string): Map<string, T> {
  const family = families.get(name) ?? new Map<string, T>()
  families.set(name, family)
  return family
}

function entryOf(families: Map<string, Map<string, Value>>, name: string, labels: MetricLabels): Value {
  const family = familyOf(families, name)
  const key = labelText(labels)
  const value = family.get(key) ?? { labels, value: 0 }
  family.set(key, value)
  return value
}

function metricName(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_]/g, '_')
}

function labelText(labels: MetricLabels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${metricName(name)}="${escaped(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
