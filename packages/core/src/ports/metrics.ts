/** Labels are few and of low cardinality: handler, type, outcome; never ids. */
export type MetricLabels = Readonly<Record<string, string>>

/** The port for counters and durations. Must never throw; called on the hot path, so it should only record. */
export interface Metrics {
  /** Adds to a counter. */
  count(name: string, amount: number, labels: MetricLabels): void
  /** Records one value of a distribution; durations are milliseconds. */
  observe(name: string, value: number, labels: MetricLabels): void
  /** Sets a gauge: in flight, lag. */
  gauge(name: string, value: number, labels: MetricLabels): void
}
