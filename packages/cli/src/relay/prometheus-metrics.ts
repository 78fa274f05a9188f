import type { MetricLabels, Metrics } from '@ackord/core'
import { type MetricDescription, metricTable } from '@ackord/core/internal'

const table: Readonly<Record<string, MetricDescription>> = metricTable

interface Series {
  readonly labels: MetricLabels
  /** The value; of a histogram, the sum of its values. */
  value: number
  /** How many values are in the buckets of a histogram. */
  count: number
  readonly buckets: number[]
}

/** All series of one metric. */
interface Family {
  readonly name: string
  readonly kind: MetricDescription['kind']
  readonly help: string | undefined
  readonly labels: MetricDescription['labels']
  /** Values of the library are divided by this number. */
  readonly divisor: number
  /** Upper bounds of the buckets, without infinity. Empty if the metric is no histogram, or is not in the table. */
  readonly bounds: readonly number[]
  readonly series: Map<string, Series>
}

/**
 * Metrics in the format of Prometheus. By its conventions durations, which the library reports in milliseconds, are in seconds, and counters end in
 * `_total`. Series of the described metrics exist before they have a value, so that a rate can be calculated from the first one on: those without a
 * destination immediately, the others as soon as the destination is known. A metric with another label whose values are not known has none.
 */
export class PrometheusMetrics implements Metrics {
  readonly #families = new Map<string, Family>()
  readonly #destinations = new Set<string>()

  constructor(described: Readonly<Record<string, MetricDescription>>) {
    for (const [name, description] of Object.entries(described)) {
      const family = newFamily(name, description)
      this.#families.set(name, family)
      addSeries(family, {})
    }
  }

  count(name: string, amount: number, labels: MetricLabels): void {
    this.#series(name, 'counter', labels).series.value += amount
  }

  gauge(name: string, value: number, labels: MetricLabels): void {
    const { series, family } = this.#series(name, 'gauge', labels)
    series.value = value / family.divisor
  }

  observe(name: string, value: number, labels: MetricLabels): void {
    const { series, family } = this.#series(name, 'histogram', labels)
    const shown = value / family.divisor
    series.value += shown
    series.count += 1
    for (const [index, bound] of family.bounds.entries()) if (shown <= bound) series.buckets[index] = (series.buckets[index] ?? 0) + 1
  }

  /** In the text format, version 0.0.4. */
  format(): string {
    return [...this.#families.values()]
      .flatMap(linesOf)
      .map((line) => `${line}\n`)
      .join('')
  }

  #series(name: string, kind: Family['kind'], labels: MetricLabels): { readonly series: Series; readonly family: Family } {
    const { destination, store } = labels
    if (destination !== undefined) this.#addDestination(store === undefined ? { destination } : { destination, store })
    // A metric that was not announced has only the series that are reported.
    const family = this.#families.get(name) ?? newFamily(name, table[name] ?? { kind, labels: {} })
    this.#families.set(name, family)
    return { family, series: seriesOf(family, labels) }
  }

  #addDestination(labels: MetricLabels): void {
    const key = labelText(labels)
    if (this.#destinations.has(key)) return
    this.#destinations.add(key)
    for (const family of this.#families.values()) if ('destination' in family.labels) addSeries(family, labels)
  }
}

type Shape = Pick<MetricDescription, 'kind' | 'unit' | 'labels' | 'buckets'> & { readonly help?: string | undefined }

function newFamily(name: string, { kind, unit, help, labels, buckets }: Shape): Family {
  const inSeconds = unit === 'milliseconds'
  const suffix = `${inSeconds ? '_seconds' : ''}${kind === 'counter' ? '_total' : ''}`
  return { name: metricName(name) + suffix, kind, help, labels, divisor: inSeconds ? 1000 : 1, bounds: buckets ?? [], series: new Map() }
}

/** Adds the series with these labels, one for each value of the others; none if those are not known. */
function addSeries(family: Family, given: MetricLabels): void {
  let all: readonly MetricLabels[] = [given]
  for (const [label, values] of Object.entries(family.labels)) {
    if (label in given) continue
    if (values === 'any') return
    all = all.flatMap((labels) => values.map((value) => ({ ...labels, [label]: value })))
  }
  for (const labels of all) seriesOf(family, labels)
}

function seriesOf({ series, bounds }: Family, labels: MetricLabels): Series {
  const key = labelText(labels)
  const one = series.get(key) ?? { labels, value: 0, count: 0, buckets: bounds.map(() => 0) }
  series.set(key, one)
  return one
}

function linesOf(family: Family): readonly string[] {
  const { name, kind, help, series } = family
  return [
    ...(help === undefined ? [] : [`# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}`]),
    `# TYPE ${name} ${kind}`,
    ...[...series.values()].flatMap((one) =>
      kind === 'histogram' ? histogramLines(family, one) : `${name}${labelText(one.labels)} ${one.value}`,
    ),
  ]
}

function histogramLines({ name, bounds }: Family, { labels, buckets, value, count }: Series): readonly string[] {
  const bucket = (bound: string, amount: number | undefined) => `${name}_bucket${labelText({ ...labels, le: bound })} ${amount ?? 0}`
  return [
    ...bounds.map((bound, index) => bucket(String(bound), buckets[index])),
    bucket('+Inf', count),
    `${name}_sum${labelText(labels)} ${value}`,
    `${name}_count${labelText(labels)} ${count}`,
  ]
}

function metricName(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_]/g, '_')
}

/** The same text for the same labels, in whichever order they are given. */
function labelText(labels: MetricLabels): string {
  const pairs = Object.entries(labels)
    .map(([name, value]) => `${metricName(name)}="${escaped(value)}"`)
    .sort()
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
