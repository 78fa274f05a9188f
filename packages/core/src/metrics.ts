/** Labels are few and of low cardinality: handler, type, outcome; never ids. */
export type MetricLabels = Readonly<Record<string, string>>

/** Where counts and durations go. Never throws; called on the hot path, so it only records. */
export interface Metrics {
  /** Adds to a counter. */
  count(name: string, amount: number, labels: MetricLabels): void
  /** Records one value of a distribution; durations are milliseconds. */
  observe(name: string, value: number, labels: MetricLabels): void
  /** Sets a level: in flight, lag. */
  gauge(name: string, value: number, labels: MetricLabels): void
}
