// @ts-check
// The section of docs/benchmarks.md about job queues. Its comparisons are computed from the figures, so that they cannot contradict a new measurement.
import { formatMilliseconds } from './charts.mjs'

/** The contestants by the prefix of their figures. `commits`: what is atomic. */
const contestants = /** @type {const} */ ([
  ['hand', 'PostgreSQL', 'by hand', 'the message, the order and the event'],
  ['hand_batch', 'PostgreSQL', 'by hand, batches', 'the messages, orders and events of a batch'],
  ['ackord', 'PostgreSQL', 'Ackord, relay', 'the inbox, the order and the event; the message is then acked'],
  ['ackord_source', 'PostgreSQL', 'Ackord, `outboxSource()`', 'the same'],
  ['ackord_group', 'PostgreSQL', 'Ackord, `outboxSource()`, group commit', 'the same, for a group'],
  ['pg_boss', 'PostgreSQL', 'pg-boss', 'the jobs of a batch, their orders and follow-up jobs'],
  [
    'graphile_worker',
    'PostgreSQL',
    'graphile-worker',
    'the order and the follow-up job; the job is completed afterwards, and the key of the order makes a second run harmless',
  ],
  ['pg_transactional_outbox', 'PostgreSQL', 'pg-transactional-outbox', 'the message, the order and the event'],
  ['redis_hand', 'Redis', 'by hand', 'the order, the event and the ack'],
  ['redis_ackord', 'Redis', 'Ackord, relay', 'the marker of the message, the order and the event; the message is then acked'],
  ['redis_ackord_source', 'Redis', 'Ackord, `outboxSource()`', 'the same'],
  ['bullmq', 'Redis', 'BullMQ', 'nothing: keys of the order and of the follow-up job make a second run harmless'],
])

/** A figure and its title. @typedef {readonly [figure: string, title: string]} Measure */

/** @type {readonly Measure[]} */
const measures = [
  ['drain_per_s', 'orders handled per second'],
  ['append_per_s', 'messages stored per second'],
  ['latency_p50_ms', 'latency, median'],
  ['latency_p99_ms', 'latency, 99th percentile'],
]

/** @type {readonly Measure[]} */
const extremes = [
  ['noop_per_s', 'messages per second, empty handler'],
  ['backlog_per_s', 'orders per second, large backlog'],
  ['snapshot_p50_ms', 'latency with a held snapshot, median'],
  ['snapshot_p99_ms', 'the same, 99th percentile'],
]

/** @param {import('./charts.mjs').Result} result @param {string} charts the charts and their texts, in Markdown @returns {string} */
export function peersSection({ figures, settings = {}, versions }, charts) {
  const version = (/** @type {string} */ name) => `${name} ${versions[name] ?? ''}`.trim()
  const queues = ['pg-boss', 'graphile-worker', 'pg-transactional-outbox'].filter((name) => versions[name] !== undefined).map(version)
  return `## Against job queues

The same work on Ackord, ${queues.join(', ')} and BullMQ ${versions['bullmq'] ?? ''}, in one process on the same Node, with ${version('pg')} and ${version('ioredis')}, and by hand. ${figures['messages']} orders wait in the queue; each is handled once, which inserts a row and creates one
follow-up event or job. The contestants take turns, each time with new tables, ${figures['rounds']} rounds after one that does not count; a figure is the median of the rounds, and a ratio the median of the ratios of each round. \`npm run -s bench -- peers --json\` measures it on your machine.

These projects have different purposes. Job queues run work inside of one database. Ackord carries messages between a store and a broker, and its inbox, which remembers every message for days, is work that a job queue does not do: [how it compares](comparison.md). If all your messages stay in one
PostgreSQL, a job queue is the simpler choice.

${charts}### Who is better here

Which side is better, and how many times. The others are compared with the same way of working in Ackord: with \`outboxSource()\`, because they use no broker either, and those that work in batches with its group commit. A difference counts only if it was on the same side in all rounds.

${table(measures, comparisons(figures, measures))}

### All figures

Medians, and in parentheses the lowest and the highest round.

${table(measures, rows(figures, measures))}

${extremeTables(figures)}Storing: one transaction that inserts a row and stores a message, on ${figures['connections']} connections. BullMQ cannot add a job in a transaction with other writes. Contestants that store in the same way as another one have no figure.

### Settings, and what commits together

| | settings | commits together |
|---|---|---|
${contestants
  .filter(([name]) => settings[name] !== undefined)
  .map(([name, store, label, commits]) => `| ${label}, ${store} | ${settings[name]} | ${commits} |`)
  .join('\n')}

- PostgreSQL writes each commit to disk (\`fsync\` and \`synchronous_commit\` are on); Redis persists nothing. Rates of the two are not comparable.
- The in-memory broker loses its messages in a crash. A real broker keeps them and takes its own time. \`outboxSource()\` needs no broker: a message stays in the outbox until its handler has committed, as with a job queue.
- graphile-worker by design passes no transaction to its handlers. pg-boss keeps completed jobs for days, the others delete them.
- The time of a backlog includes the start of the workers, and ends when no message or job is left.
`
}

/** @param {readonly Measure[]} columns @param {readonly string[]} lines */
function table(columns, lines) {
  return `| | ${columns.map(([, title]) => title).join(' | ')} |\n|---|${columns.map(() => '---|').join('')}\n${lines.join('\n')}`
}

/** @param {Readonly<Record<string, unknown>>} figures */
function extremeTables(figures) {
  const measured = rows(figures, extremes)
  if (measured.length === 0) return ''
  const count = Number(figures['backlog_messages']).toLocaleString('en-US')
  return `Where the queues differ most: a handler that does nothing, so that only the queue is measured; the first orders of a backlog of ${count}, handled as above; and the latency at ${figures['snapshot_load_per_s']} messages per second, in the last sixth of ${figures['snapshot_seconds']} seconds
in which another transaction holds a snapshot. Ackord's relay is measured with a broker that confirms at once.

${table(extremes, measured)}

${table(extremes, comparisons(figures, extremes))}

`
}

/** @param {Readonly<Record<string, unknown>>} figures @param {readonly Measure[]} columns */
function rows(figures, columns) {
  return contestants.flatMap(([name, store, label]) => {
    const cells = columns.map(([measure]) => {
      const range = rangeOf(figures, `${name}_${measure}`)
      if (range === undefined) return '–'
      const format = (/** @type {number} */ value) => (measure.endsWith('_ms') ? formatMilliseconds(value) : value.toLocaleString('en-US'))
      return `${format(range.median)} (${format(range.min)} to ${format(range.max)})`
    })
    return cells.every((cell) => cell === '–') ? [] : [`| ${label}, ${store} | ${cells.join(' | ')} |`]
  })
}

/** Compares the others with the comparable contestant of Ackord. @param {Readonly<Record<string, unknown>>} figures @param {readonly Measure[]} columns */
function comparisons(figures, columns) {
  return contestants.flatMap(([name, store, label]) => {
    const cells = columns.map(([measure]) => {
      const ratio = rangeOf(figures, `${name}_${measure}_to_ackord`)
      if (ratio === undefined) return '–'
      if (ratio.min <= 1 && ratio.max >= 1) return 'no clear difference'
      const isBetter = measure.endsWith('_ms') ? ratio.median < 1 : ratio.median > 1
      const factor = ratio.median < 1 ? 1 / ratio.median : ratio.median
      return `${isBetter ? `**${label}**` : 'Ackord'}, ${factor > 50 ? 'more than 50' : factor.toFixed(1)} times`
    })
    return cells.every((cell) => cell === '–') ? [] : [`| ${label}, ${store} | ${cells.join(' | ')} |`]
  })
}

/** @param {Readonly<Record<string, unknown>>} figures @param {string} name @returns {{ median: number, min: number, max: number } | undefined} */
function rangeOf(figures, name) {
  const [median, min, max] = [figures[name], figures[`${name}_min`], figures[`${name}_max`]]
  return typeof median === 'number' && typeof min === 'number' && typeof max === 'number' ? { median, min, max } : undefined
}
