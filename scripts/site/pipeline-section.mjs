// @ts-check
// The table of docs/benchmarks.md about the whole pipeline.
import { formatMilliseconds, pipelineBrokers, pipelinePrefix, pipelineRelays, relayText } from './charts.mjs'

const whole = (/** @type {number} */ value) => value.toLocaleString('en-US')

const columns = /** @type {const} */ ([
  ['per_s', 'orders per second', whole],
  ['latency_p50_ms', 'latency, median', formatMilliseconds],
  ['latency_p99_ms', 'latency, 99th percentile', formatMilliseconds],
  ['cpu_us', 'processor time per order, µs', whole],
  ['wal_bytes', 'write-ahead log per order, bytes', whole],
])

/** @param {import('./charts.mjs').Result} result @returns {string} */
export function pipelineTable({ figures }) {
  const lines = pipelineBrokers.flatMap(([broker, label]) =>
    pipelineRelays.map((relays) => {
      const cells = columns.map(([name, , format]) => cell(figures, `${pipelinePrefix(broker, relays)}_${name}`, format))
      return `| ${label}, ${relayText(relays)} | ${cells.join(' | ')} |`
    }),
  )
  return `Medians of ${figures['rounds']} rounds in which all take turns, and in parentheses the lowest and the highest round: ${whole(Number(figures['messages']))} orders at once for the rate, ${figures['load_per_s']} per second for the latency. The processor time is that of the client, the services and the relays together, without the servers; the log is what PostgreSQL has written for both services.

| | ${columns.map(([, title]) => title).join(' | ')} |
|---|${columns.map(() => '---|').join('')}
${lines.join('\n')}
`
}

/** @param {Readonly<Record<string, unknown>>} figures @param {string} name @param {(value: number) => string} format */
function cell(figures, name, format) {
  const [median, min, max] = [figures[name], figures[`${name}_min`], figures[`${name}_max`]]
  if (typeof median !== 'number' || typeof min !== 'number' || typeof max !== 'number') return '–'
  return `${format(median)} (${format(min)} to ${format(max)})`
}
