import type { Metrics } from '@ackord/core'
import { guardMetrics, type MetricDescription, type MetricName, metricTable } from '@ackord/core/internal'
import { outboxMetrics } from '@ackord/outbox'
import type { Store } from '../stores/store.ts'
import { version } from '../version.ts'
import { ProcessMetrics } from './process-metrics.ts'
import { PrometheusMetrics } from './prometheus-metrics.ts'
import type { RelayStores } from './relay-stores.ts'

/**
 * The metrics that the outbox itself reports while a relay reads it; SQL stores report nothing. Its other metrics are of the services that write to it and of
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

/** The metrics of a relay on these stores and of its process, for Prometheus. */
export class ScrapedMetrics implements Disposable {
  readonly #metrics: PrometheusMetrics
  readonly #process = new ProcessMetrics()

  /** These destinations have their series before their first value; those of others are added when the relay meets them. */
  constructor({ stores, named }: Pick<RelayStores, 'stores' | 'named'>, destinations: readonly string[]) {
    this.#metrics = new PrometheusMetrics(descriptionsFor([...stores.values()], named ? [...stores.keys()] : undefined))
    // A destination may be a URL with a password, which the guard hides.
    const { count, gauge } = guardMetrics(this.#metrics)
    gauge('ackord.build_info', 1, { version })
    for (const destination of destinations) {
      for (const store of named ? stores.keys() : []) count('ackord.outbox.attempts', 0, { destination, store })
      if (!named) count('ackord.outbox.attempts', 0, { destination })
    }
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

/** `names`: of the stores, if each series has one as the label `store`. */
function descriptionsFor(stores: readonly Store[], names: readonly string[] | undefined): Readonly<Record<string, MetricDescription>> {
  const kinds = new Set(stores.map((store) => (store.kind === 'redis' ? store.outboxKind : 'sql')))
  const own = [...kinds].flatMap((kind) => storeMetrics[kind].map((name) => [name, metricTable[name]] as const))
  const all: Record<string, MetricDescription> = { ...outboxMetrics, ...Object.fromEntries(own) }
  // The Lua outbox cannot tell the destination of a record that it cannot read.
  if (kinds.has('lua') && !kinds.has('stream')) {
    all['ackord.outbox.unreadable'] = { ...metricTable['ackord.outbox.unreadable'], labels: {} }
  }
  const labelled = Object.entries(all).map(([name, description]) => {
    return [name, names === undefined ? description : { ...description, labels: { ...description.labels, store: names } }] as const
  })
  return { 'ackord.build_info': metricTable['ackord.build_info'], ...Object.fromEntries(labelled) }
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
