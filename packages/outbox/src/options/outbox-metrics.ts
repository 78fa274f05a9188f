import { type MetricDescription, metricTable } from '@ackord/core/internal'

export type { MetricDescription } from '@ackord/core/internal'

/** The metrics of `Relay` and `outboxSource`, by name, for registries that want a description of each, such as the `HELP` and `TYPE` lines of Prometheus. */
export const outboxMetrics: Readonly<Record<string, MetricDescription>> = Object.fromEntries(
  Object.entries(metricTable).filter(([, { from }]) => from === 'relay'),
)
