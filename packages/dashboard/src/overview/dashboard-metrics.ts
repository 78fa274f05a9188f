import { type MetricLabels, type Metrics, type Runtime, systemRuntime } from '@ackord/core'
import { guardMetrics, rejectUnknownOptions } from '@ackord/core/internal'
import type { ConsumerOverview } from '../api/types.ts'

export interface DashboardMetricsOptions {
  /** Where to pass all metrics on to, such as the port of OpenTelemetry. Default: nowhere. */
  readonly forwardTo?: Metrics | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** A `metrics` port that counts what becomes of the messages of one consumer, in this process. */
export interface DashboardMetrics extends Metrics {
  /** What it has counted. */
  read(): Omit<ConsumerOverview, 'consumer'>
}

const minute = 60_000
/** How many minutes are shown. */
const maxMinutes = 30

type Counted = 'handled' | 'duplicates' | 'failed' | 'rejected'

const none: Readonly<Record<Counted, number>> = { handled: 0, duplicates: 0, failed: 0, rejected: 0 }

/** Verdicts of the router, by what they mean for operators. */
const meanings: Readonly<Record<string, Counted>> = { acked: 'handled', nacked: 'failed', rejected: 'rejected' }

/** Pass it to the router or service of a consumer as `metrics`, and to the dashboard under the name of the consumer. */
export function dashboardMetrics(options: DashboardMetricsOptions = {}): DashboardMetrics {
  const { forwardTo, runtime = systemRuntime, ...unknown } = options
  rejectUnknownOptions('dashboardMetrics()', unknown)
  // The library calls it with the names of its own metrics only; here they are any text.
  const next = forwardTo === undefined ? undefined : (guardMetrics(forwardTo) as Metrics)
  const totals = { ...none }
  /** By the number of the minute since the epoch, the oldest first. */
  const minutes = new Map<number, Record<Counted, number>>()

  function add(counted: Counted, amount: number): void {
    const number = Math.floor(runtime.now() / minute)
    const current = minutes.get(number) ?? { ...none }
    minutes.set(number, current)
    for (const oldest of minutes.keys()) {
      if (minutes.size <= maxMinutes) break
      minutes.delete(oldest)
    }
    totals[counted] += amount
    current[counted] += amount
  }

  return {
    count(name: string, amount: number, labels: MetricLabels) {
      const { verdict } = labels
      const meaning = name === 'ackord.settled' ? meanings[String(verdict)] : undefined
      if (meaning !== undefined) add(meaning, amount)
      if (name === 'ackord.inbox.duplicates') {
        add('duplicates', amount)
        // The router counts them as acked, too.
        add('handled', -amount)
      }
      next?.count(name, amount, labels)
    },
    observe: (name, value, labels) => next?.observe(name, value, labels),
    gauge: (name, value, labels) => next?.gauge(name, value, labels),
    read() {
      const now = Math.floor(runtime.now() / minute)
      return {
        ...shown(totals),
        perMinute: Array.from({ length: maxMinutes }, (_, index) => {
          const number = now - maxMinutes + index
          const { handled, duplicates } = shown(minutes.get(number) ?? none)
          return { at: number * minute, handled, duplicates }
        }),
      }
    },
  }
}

/** A duplicate is counted before its ack. */
function shown(counts: Readonly<Record<Counted, number>>): Readonly<Record<Counted, number>> {
  return { ...counts, handled: Math.max(0, counts.handled) }
}
