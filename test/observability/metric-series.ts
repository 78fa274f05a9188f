import { type MetricDescription, type MetricName, metricTable } from '@ackord/core/internal'
import { type Grouping, parsePromql, type Selector } from './promql.ts'

/** The series of a metric in Prometheus. */
export interface Series {
  readonly kind: MetricDescription['kind']
  readonly labels: MetricDescription['labels']
  /** Its name at the metrics port; `undefined` for a metric that is not Ackord's. */
  readonly metric: MetricName | undefined
}

/**
 * The name in Prometheus: underscores, the unit, and `_total` for counters. Prometheus exporters of OpenTelemetry and `ackord relay` follow the same rule.
 */
export function prometheusName(name: string, { kind, unit }: Pick<MetricDescription, 'kind' | 'unit'>): string {
  return `${name.replaceAll('.', '_')}${unit === 'milliseconds' ? '_seconds' : ''}${kind === 'counter' ? '_total' : ''}`
}

/** Metrics of OpenTelemetry, its instrumentation of Node and `prom-client`, which the dashboard shows beside those of Ackord. */
const foreign: Readonly<Record<string, Pick<Series, 'kind' | 'labels'>>> = {
  messaging_process_duration_seconds: {
    kind: 'histogram',
    labels: { messaging_system_name: 'any', messaging_destination_name: 'any', messaging_operation_name: 'any', error_type: 'any' },
  },
  process_resident_memory_bytes: { kind: 'gauge', labels: {} },
  process_memory_usage_bytes: { kind: 'gauge', labels: {} },
  nodejs_eventloop_lag_p99_seconds: { kind: 'gauge', labels: {} },
  nodejs_eventloop_delay_p99_seconds: { kind: 'gauge', labels: {} },
}

/** All series that dashboard and rules may name. Those of a histogram have the suffixes of its parts. */
export const knownSeries: ReadonlyMap<string, Series> = new Map([
  ...Object.entries(metricTable).flatMap(([name, description]) =>
    // The keys of the table are these names.
    seriesOf(prometheusName(name, description), { ...description, metric: name as MetricName }),
  ),
  ...Object.entries(foreign).flatMap(([name, description]) => seriesOf(name, { ...description, metric: undefined })),
])

function seriesOf(name: string, { kind, labels, metric }: Series): readonly (readonly [string, Series])[] {
  if (kind !== 'histogram') return [[name, { kind, labels, metric }]]
  const bucket = { kind, labels: { ...labels, le: 'any' as const }, metric }
  return [[`${name}_bucket`, bucket], ...['_sum', '_count'].map((part) => [name + part, { kind, labels, metric }] as const)]
}

/** Labels that Prometheus adds to every series that it scrapes. */
const targetLabels = ['job', 'instance']

/** Metrics, labels and values of labels in an expression that do not exist, and functions that do not fit their kind. */
export function problemsIn(expression: string): readonly string[] {
  const { selectors, groupings } = parsePromql(expression)
  if (selectors.length === 0) return [`${expression} names no metric.`]
  return [...selectors.flatMap(problemsOfSelector), ...groupings.flatMap(problemsOfGrouping)]
}

function problemsOfSelector({ metric, matchers, rangeFunction }: Selector): readonly string[] {
  const series = knownSeries.get(metric)
  if (series === undefined) return [`There is no metric ${metric}.`]
  const isRate = rangeFunction === 'rate' || rangeFunction === 'increase'
  return [
    ...(isRate && series.kind === 'gauge' ? [`${metric} is a gauge: ${rangeFunction}() is for counters.`] : []),
    ...matchers.flatMap(({ label, value }) => {
      if (!hasLabel(series, label)) return [`${metric} has no label ${label}.`]
      const values = series.labels[label]
      // A variable of the dashboard has any value.
      if (values === undefined || values === 'any' || value.startsWith('$')) return []
      return value.split('|').flatMap((one) => (values.includes(one) ? [] : [`${metric} has no ${label} "${one}".`]))
    }),
  ]
}

function problemsOfGrouping({ keyword, labels, selectors }: Grouping): readonly string[] {
  return labels.flatMap((label) =>
    selectors.flatMap(({ metric }) => {
      const series = knownSeries.get(metric)
      return series === undefined || hasLabel(series, label) ? [] : [`${metric} has no label ${label}, which ${keyword} names.`]
    }),
  )
}

function hasLabel({ labels }: Series, label: string): boolean {
  return label in labels || targetLabels.includes(label)
}

/** The labels of the result, which texts and legends may use. */
export function resultLabels(expression: string): readonly string[] {
  const [first] = parsePromql(expression).groupings.filter(({ keyword }) => keyword === 'by')
  return first?.labels.filter((label) => label !== 'le') ?? []
}
