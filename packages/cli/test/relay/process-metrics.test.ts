import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { ProcessMetrics } from '../../src/relay/process-metrics.ts'
import { reportToAll } from '../../src/relay/relay-metrics.ts'
import { parsePrometheusText } from '../support/prometheus-text.ts'

function sampleOf(metrics: ProcessMetrics, name: string): number {
  return parsePrometheusText(metrics.format()).get(name)?.samples[0]?.value ?? Number.NaN
}

function keepBusy(milliseconds: number): void {
  const end = performance.now() + milliseconds
  while (performance.now() < end);
}

describe('the metrics of the process', () => {
  it('show memory, CPU time and the start', () => {
    using metrics = new ProcessMetrics()
    expect(sampleOf(metrics, 'process_resident_memory_bytes')).toBeGreaterThan(10_000_000)
    const before = sampleOf(metrics, 'process_cpu_seconds_total')
    keepBusy(50)
    const used = sampleOf(metrics, 'process_cpu_seconds_total') - before
    expect(used).toBeGreaterThan(0)
    expect(used).toBeLessThan(60)
    const age = Date.now() / 1000 - sampleOf(metrics, 'process_start_time_seconds')
    expect(Math.abs(age - process.uptime())).toBeLessThan(5)
  })

  it('show how long the event loop was delayed since the previous scrape', async () => {
    using metrics = new ProcessMetrics()
    let longest = 0
    while (longest < 0.08) {
      // More than once: a delay is the time between two samples, and the first sample of a window has no predecessor.
      for (let turn = 0; turn < 3; turn += 1) {
        keepBusy(100)
        await setImmediate()
      }
      longest = sampleOf(metrics, 'nodejs_eventloop_lag_max_seconds')
    }
    expect(longest).toBeLessThan(30)
    const lags = parsePrometheusText(metrics.format())
    // A new window, in which nothing has happened.
    for (const name of ['p50', 'p99', 'max']) expect(lags.get(`nodejs_eventloop_lag_${name}_seconds`)?.samples[0]?.value).toBe(0)
  })
})

describe('a report to several ports', () => {
  function recorder() {
    const calls: unknown[] = []
    const record = (method: string) => (name: string, value: number, labels: object) => void calls.push([method, name, value, labels])
    return { calls, count: record('count'), observe: record('observe'), gauge: record('gauge') }
  }

  it('reaches each of them', () => {
    const [one, other] = [recorder(), recorder()]
    const port = reportToAll([one, undefined, other])
    port?.count('a', 1, { to: 'x' })
    port?.observe('b', 2, {})
    port?.gauge('c', 3, {})
    const expected = [
      ['count', 'a', 1, { to: 'x' }],
      ['observe', 'b', 2, {}],
      ['gauge', 'c', 3, {}],
    ]
    expect(one.calls).toEqual(expected)
    expect(other.calls).toEqual(expected)
  })

  it('is the port itself if there is one, and undefined if there is none', () => {
    const one = recorder()
    expect(reportToAll([undefined, one])).toBe(one)
    expect(reportToAll([undefined, undefined])).toBeUndefined()
  })
})
