import { type MetricLabels, type Metrics, type Runtime, systemRuntime } from '@ackord/core'
import { guardMetrics, rejectUnknownOptions } from '@ackord/core/internal'
import type { ConsumerOverview, MessagesOverview } from '../api/types.ts'

export interface DashboardMetricsOptions {
  /** Where to pass all metrics on to, such as the port of OpenTelemetry. Default: nowhere. */
  readonly forwardTo?: Metrics | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** A `metrics` port that counts what becomes of the messages of this process. */
export interface DashboardMetrics extends Metrics {
  /** The counts so far. */
  read(): MessagesOverview
}

const minute = 60_000
/** How many minutes are shown. */
const maxMinutes = 30

/** Pass it to all routers or services of the process as `metrics`, and to the dashboard. Consumers are told apart by the names of their inboxes. */
export function dashboardMetrics(options: DashboardMetricsOptions = {}): DashboardMetrics {
  const { forwardTo, runtime = systemRuntime, ...unknown } = options
  rejectUnknownOptions('dashboardMetrics()', unknown)
  // The library calls it with the names of its own metrics only; here they are any text.
  const next = forwardTo === undefined ? undefined : (guardMetrics(forwardTo) as Metrics)
  const consumers = new Map<string, ConsumerCounts>()
  const verdicts = { nacked: 0, rejected: 0 }
  const currentMinute = () => Math.floor(runtime.now() / minute)

  function countsOf(consumer: string): ConsumerCounts {
    const counts = consumers.get(consumer) ?? new ConsumerCounts()
    consumers.set(consumer, counts)
    return counts
  }

  return {
    count(name: string, amount: number, labels: MetricLabels) {
      const { consumer, verdict } = labels
      if (name === 'ackord.inbox.handled') countsOf(String(consumer)).add('handled', amount, currentMinute())
      if (name === 'ackord.inbox.duplicates') countsOf(String(consumer)).add('duplicates', amount, currentMinute())
      if (name === 'ackord.settled' && (verdict === 'nacked' || verdict === 'rejected')) verdicts[verdict] += amount
      next?.count(name, amount, labels)
    },
    observe: (name, value, labels) => next?.observe(name, value, labels),
    gauge: (name, value, labels) => next?.gauge(name, value, labels),
    read() {
      const now = currentMinute()
      const named = Array.from(consumers, ([consumer, counts]) => ({ consumer, ...counts.read(now) }))
      return {
        consumers: named.sort((one, other) => (one.consumer < other.consumer ? -1 : 1)),
        failed: verdicts.nacked,
        rejected: verdicts.rejected,
      }
    },
  }
}

interface Counts {
  handled: number
  duplicates: number
}

class ConsumerCounts {
  readonly #totals: Counts = { handled: 0, duplicates: 0 }
  /** By the number of the minute since the epoch, the oldest first. */
  readonly #minutes = new Map<number, Counts>()

  add(counted: keyof Counts, amount: number, number: number): void {
    const current = this.#minutes.get(number) ?? { handled: 0, duplicates: 0 }
    this.#minutes.set(number, current)
    // The current minute is not shown.
    for (const oldest of this.#minutes.keys()) {
      if (this.#minutes.size <= maxMinutes + 1) break
      this.#minutes.delete(oldest)
    }
    this.#totals[counted] += amount
    current[counted] += amount
  }

  read(now: number): Omit<ConsumerOverview, 'consumer'> {
    return {
      ...this.#totals,
      perMinute: Array.from({ length: maxMinutes }, (_, index) => {
        const number = now - maxMinutes + index
        const { handled = 0, duplicates = 0 } = this.#minutes.get(number) ?? {}
        return { at: number * minute, handled, duplicates }
      }),
    }
  }
}
