import type { Metrics } from '@ackord/core'
import { guardMetrics, type MetricDescription, type MetricName, metricTable } from '@ackord/core/internal'
import { outboxMetrics } from '@ackord/outbox'
import type { Store } from '../stores/store.ts'
import { version } from '../version.ts'
import { ProcessMetrics } from './process-metrics.ts'
import { PrometheusMetrics } from './prometheus-metrics.ts'

/**
 * What the outbox itself reports while a relay reads it; SQL stores report nothing. Its other metrics are of the services that write to it and of
 * operators, so a relay would only ever show 0.
 */
const storeMetrics = {
  sql: [],
  stream: ['ackord.outbox.unreadable', 'ackord.outbox.trimmed'],
  lua: [
    'ackord.outbox.unreadable',
    'ackord.outbox.quarantined',
    'ackord.outbox.orphans',
    'ackord.outbox.retention',
    'ackord.outbox.delivery_duration',
    'ackord.outbox.script_duration',
    'ackord.outbox.script_reloads',
  ],
} as const satisfies Readonly<Record<string, readonly MetricName[]>>

/** The metrics of a relay on this store and of its process, for Prometheus. */
export class ScrapedMetrics implements Disposable {
  readonly #metrics: PrometheusMetrics
  readonly #process = new ProcessMetrics()

  /** These destinations have their series before their first value; those of others are added when the relay meets them. */
  constructor(store: Store, destinations: readonly string[]) {
    this.#metrics = new PrometheusMetrics(descriptionsFor(store))
    // A destination may be a URL with a password, which the guard hides.
    const { count, gauge } = guardMetrics(this.#metrics)
    gauge('ackord.build_info', 1, { version })
    for (const destination of destinations) count('ackord.outbox.attempts', 0, { destination })
  }

  get port(): Metrics {
    return this.#metrics
  }

  /** In the text format, version 0.0.4. */
  format(): string {
    return this.#metrics.format() + this.#process.format()
  }

  [Symbol.dispose](): void {
    this.#process[Symbol.dispose]()
  }
}

function descriptionsFor(store: Store): Readonly<Record<string, MetricDescription>> {
  const kind = store.kind === 'redis' ? store.outboxKind : 'sql'
  const own = storeMetrics[kind].map((name) => [name, metricTable[name]] as const)
  const all: Record<string, MetricDescription> = {
    'ackord.build_info': metricTable['ackord.build_info'],
    ...outboxMetrics,
    ...Object.fromEntries(own),
  }
  // The Lua outbox cannot tell the destination of a record that it cannot read.
  return kind === 'lua' ? { ...all, 'ackord.outbox.unreadable': { ...metricTable['ackord.outbox.unreadable'], labels: {} } } : all
}

/** One port that reports to all that are there; `undefined` if none is. */
export function reportToAll(given: readonly (Metrics | undefined)[]): Metrics | undefined {
  const ports = given.filter((port) => port !== undefined)
  if (ports.length <= 1) return ports[0]
  return {
    count(name, amount, labels) {
      for (const port of ports) port.count(name, amount, labels)
    },
    observe(name, value, labels) {
      for (const port of ports) port.observe(name, value, labels)
    },
    gauge(name, value, labels) {
      for (const port of ports) port.gauge(name, value, labels)
    },
  }
}
