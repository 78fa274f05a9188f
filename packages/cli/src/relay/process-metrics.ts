import { monitorEventLoopDelay, performance } from 'node:perf_hooks'

/** Milliseconds between two samples of the event loop. */
const resolution = 10

/** Seconds. */
export interface EventLoopDelays {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/** Samples the event loop until it is disposed. */
export class EventLoopMonitor implements Disposable {
  readonly #histogram = monitorEventLoopDelay({ resolution })

  constructor() {
    this.#histogram.enable()
  }

  /** The delays since the previous call. Two readers need two monitors: otherwise each would see a part of the delays. */
  read(): EventLoopDelays {
    const histogram = this.#histogram
    const [p50, p99, max] = [histogram.percentile(50), histogram.percentile(99), histogram.max].map(delayOf)
    histogram.reset()
    return { p50: p50 ?? 0, p99: p99 ?? 0, max: max ?? 0 }
  }

  [Symbol.dispose](): void {
    this.#histogram.disable()
  }
}

/** From nanoseconds. Node measures the time from one sample to the next, so an idle event loop shows the resolution, and not 0. */
function delayOf(interval: number): number {
  return Math.max(0, interval / 1e9 - resolution / 1000)
}

/** Seconds of CPU time since the start of the process. */
export function cpuSeconds(): { readonly user: number; readonly system: number } {
  const { user, system } = process.cpuUsage()
  return { user: user / 1e6, system: system / 1e6 }
}

/** Metrics of the process for Prometheus, under the names that `prom-client` uses. Each scrape shows the delays of the event loop since the previous one. */
export class ProcessMetrics implements Disposable {
  readonly #monitor = new EventLoopMonitor()

  /** In the text format, version 0.0.4. */
  format(): string {
    const { p50, p99, max } = this.#monitor.read()
    const { user, system } = cpuSeconds()
    return [
      ['process_resident_memory_bytes', 'gauge', 'Resident memory size in bytes.', process.memoryUsage.rss()],
      ['process_cpu_seconds_total', 'counter', 'User and system CPU time in seconds.', user + system],
      ['process_start_time_seconds', 'gauge', 'Start of the process, in seconds since 1970.', performance.timeOrigin / 1000],
      ['nodejs_eventloop_lag_p50_seconds', 'gauge', 'Median delay of the event loop since the previous scrape.', p50],
      ['nodejs_eventloop_lag_p99_seconds', 'gauge', '99th percentile of the delays of the event loop since the previous scrape.', p99],
      ['nodejs_eventloop_lag_max_seconds', 'gauge', 'Longest delay of the event loop since the previous scrape.', max],
    ]
      .map(([name, kind, help, value]) => `# HELP ${name} ${help}\n# TYPE ${name} ${kind}\n${name} ${value}\n`)
      .join('')
  }

  [Symbol.dispose](): void {
    this.#monitor[Symbol.dispose]()
  }
}
