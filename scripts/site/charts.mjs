// @ts-check
// The charts, and the figures of `npm run -s bench -- NAME --json` that each of them draws.
import { barChart } from './bar-chart.mjs'

/**
 * @typedef {object} Result of one benchmark
 * @property {string} measured a day, or a month
 * @property {string} machine
 * @property {Readonly<Record<string, string>>} versions
 * @property {Readonly<Record<string, unknown>>} figures
 * @property {Readonly<Record<string, string>>} [settings] by contestant, if there are several
 */

/** @typedef {Readonly<Record<string, Result>>} Results by benchmark */

/**
 * @typedef {object} Chart
 * @property {string} file in docs/public/plots
 * @property {string} title
 * @property {string} subtitle
 * @property {string} about what exactly is compared, in Markdown
 * @property {'ratio' | 'milliseconds' | 'perSecond'} unit
 * @property {readonly (readonly [benchmark: string, figure: string, label: string, note: string, upper?: string])[]} bars `upper`: a second, larger figure in the same bar
 * @property {string} [baseline] what a ratio of 1 means
 * @property {readonly string[]} [others] the labels of bars that are not Ackord's
 */

export const pipelineBrokers = /** @type {const} */ ([
  ['rabbitmq', 'RabbitMQ'],
  ['nats', 'NATS JetStream'],
  ['redis', 'Redis Streams'],
  ['memory', 'In memory'],
])
export const pipelineRelays = [1, 2, 4]

/** @param {string} broker @param {number} relays */
export const pipelinePrefix = (broker, relays) => `${broker}_${relays}_relay${relays === 1 ? '' : 's'}`

/** @param {number} relays */
export const relayText = (relays) => `${relays} relay${relays === 1 ? '' : 's'}`

const pipelineAbout = `A client publishes orders. The first service stores each order and an event in one transaction, with an inbox; a relay publishes the events, in the order of each key; the second service stores them once, with an inbox of its own. Both services use PostgreSQL, with 16 connections each.
The client, the services and each relay are processes of their own; with the in-memory broker they are one process. The rate is that of orders that are published as fast as the broker confirms them, until the second service has committed the last one.`

/** @type {readonly Chart[]} */
export const charts = [
  {
    file: 'handling.svg',
    title: 'Handling a message once',
    subtitle: 'Throughput of inbox, write and outbox; higher is better',
    about: `A handler inserts an order and returns an event. The code by hand sends the same statements through the same driver on as many connections: BEGIN, inbox, order, outbox, COMMIT; in groups, one inbox and one outbox statement for 50 messages;
on Redis a SET NX, then one MULTI. Ackord is faster where it saves round trips (pg, ioredis), and slower where the driver leaves nothing to save. On Redis it does more than the code by hand: its commit is fenced, so a worker that was slow cannot overwrite the work of the next.`,
    unit: 'ratio',
    baseline: '1.0 = written by hand',
    bars: [
      ['sql', 'ratio', 'PostgreSQL', 'pg, 16 connections'],
      ['sql', 'group_ratio', 'PostgreSQL, group commit', '4 groups of 50'],
      ['sql', 'mariadb_ratio', 'MariaDB', 'mysql2, 16 connections'],
      ['sql', 'sqlite_ratio', 'SQLite', 'one writer'],
      ['redis', 'ratio', 'Redis', 'ioredis, 64 at once'],
      ['redis', 'node_redis_ratio', 'Redis', 'node-redis, 64 at once'],
    ],
  },
  {
    file: 'relay.svg',
    title: 'Relaying stored events',
    subtitle: 'Throughput of claim, publish and settle; higher is better',
    about: `A backlog of 50,000 events of 256 bytes, and a publisher that confirms at once, so that only the store and the relay are measured. By hand: on PostgreSQL a loop that claims 500 rows with \`FOR UPDATE SKIP LOCKED\` and deletes them;
on Redis XREADGROUP, XACK and XDEL. These loops have no token that proves a claim, no renewal, no back-off, no parking and no order; the difference is what those cost.`,
    unit: 'ratio',
    baseline: '1.0 = written by hand',
    bars: [
      ['relay', 'row_leases_ratio', 'PostgreSQL', 'order none'],
      ['relay', 'ratio', 'PostgreSQL', 'order per key'],
      ['relay', 'row_leases_ratio_concurrency_2', 'PostgreSQL', 'order none, 2 batches at once'],
      ['relay', 'ratio_concurrency_2', 'PostgreSQL', 'order per key, 2 batches at once'],
      ['redis', 'stream_ratio', 'Redis', 'stream outbox'],
    ],
  },
  {
    file: 'brokers.svg',
    title: 'Publishing and consuming',
    subtitle: 'Confirmed publishes and acked reads; higher is better',
    about: `Messages of 256 bytes: published in batches of 500 and confirmed, consumed with a prefetch of 100 and acked one by one. The other side is the client library alone (amqplib, nats.js, ioredis), with the same batches.`,
    unit: 'ratio',
    baseline: '1.0 = the client alone',
    bars: [
      ['brokers', 'rabbitmq_publish_ratio', 'RabbitMQ', 'publish'],
      ['brokers', 'rabbitmq_consume_ratio', 'RabbitMQ', 'consume'],
      ['brokers', 'nats_publish_ratio', 'NATS JetStream', 'publish'],
      ['brokers', 'nats_consume_ratio', 'NATS JetStream', 'consume'],
      ['brokers', 'redis_publish_ratio', 'Redis Streams', 'publish'],
      ['brokers', 'redis_consume_ratio', 'Redis Streams', 'consume'],
    ],
  },
  {
    file: 'router.svg',
    title: 'The router alone, without a store',
    subtitle: 'A handler that only returns an event; higher is better',
    about: `The worst case: no input and no output, only the cost of the router with three middleware, against a \`for await\` loop that calls the handler and acks. With a database behind it the difference is lost in
the round trips: see the first chart. \`ambient: false\` saves the part that Node's \`AsyncLocalStorage\` costs.`,
    unit: 'ratio',
    baseline: '1.0 = a bare loop',
    bars: [
      ['core', 'ratio', 'Router', 'ambient context, the default'],
      ['core', 'explicit_ratio', 'Router', 'ambient: false'],
    ],
  },
  {
    file: 'latency.svg',
    title: 'From commit to publish',
    subtitle: 'PostgreSQL, 200 messages per second; lower is better',
    about: `The time from the commit of a message to the publish of its event: with the relay in the writing process (the hot path), and with the relay on other connections, woken by a notification.`,
    unit: 'milliseconds',
    bars: [
      ['relay', 'latency_p50_ms', 'Same process', 'median'],
      ['relay', 'latency_p99_ms', 'Same process', '99th percentile'],
      ['relay', 'notified_latency_p50_ms', 'Other process, notified', 'median'],
      ['relay', 'notified_latency_p99_ms', 'Other process, notified', '99th percentile'],
    ],
  },
  {
    file: 'pipeline.svg',
    title: 'The whole way of an order',
    subtitle: 'Orders per second through two services; higher is better',
    about: pipelineAbout,
    unit: 'perSecond',
    bars: pipelineBrokers.flatMap(([broker, label]) =>
      pipelineRelays.map(
        (relays) => /** @type {const} */ (['pipeline', `${pipelinePrefix(broker, relays)}_per_s`, label, relayText(relays)]),
      ),
    ),
  },
  {
    file: 'pipeline-latency.svg',
    title: 'From publish to the second commit',
    subtitle: 'At a steady rate; median / 99th percentile; lower is better',
    about: `The time from the publish of an order by the client to its commit by the second service, at a steady rate below saturation: two transactions, two ways through the broker, and the relay between them, which is woken by a notification.`,
    unit: 'milliseconds',
    bars: pipelineBrokers.flatMap(([broker, label]) =>
      pipelineRelays.map((relays) => {
        const figure = `${pipelinePrefix(broker, relays)}_latency`
        return /** @type {const} */ (['pipeline', `${figure}_p50_ms`, label, relayText(relays), `${figure}_p99_ms`])
      }),
    ),
  },
  {
    file: 'peers-postgres.svg',
    title: 'Against job queues: handling an order once',
    subtitle: 'Throughput on PostgreSQL, 10 connections; higher is better',
    about: `A backlog of orders is handled: each becomes a row and a follow-up event. Compare like with like: a transaction with many messages shares the cost of its commit, which is most of the cost of a transaction with one message.
pg-boss passes a whole batch to its handler, which writes all its rows with one statement; with Ackord's group commit each handler still writes its own. A loop by hand that works in batches is faster than all of them: see the table below.`,
    unit: 'ratio',
    baseline: '1.0 = written by hand, one per transaction',
    others: ['pg-boss', 'graphile-worker'],
    bars: [
      ['peers', 'ackord_drain_ratio', 'Ackord', 'relay, one per transaction'],
      ['peers', 'ackord_source_drain_ratio', 'Ackord', 'outboxSource(), one per transaction'],
      ['peers', 'graphile_worker_drain_ratio', 'graphile-worker', 'one per transaction'],
      ['peers', 'ackord_group_drain_ratio', 'Ackord', 'outboxSource(), group commit'],
      ['peers', 'pg_boss_drain_ratio', 'pg-boss', 'batches, transactional'],
    ],
  },
  {
    file: 'peers-redis.svg',
    title: 'Against BullMQ: handling an order once',
    subtitle: 'Throughput on Redis, 64 at once; higher is better',
    about: `The same on Redis, where the order is a field of a hash. Ackord commits the marker of the message, the order and the event in one script; BullMQ writes the order, adds the event and completes the job one after the other, and keys make a second run harmless. The loop by hand uses a MULTI per message.`,
    unit: 'ratio',
    baseline: '1.0 = written by hand',
    others: ['BullMQ'],
    bars: [
      ['peers', 'redis_ackord_drain_ratio', 'Ackord', 'relay'],
      ['peers', 'redis_ackord_source_drain_ratio', 'Ackord', 'outboxSource()'],
      ['peers', 'bullmq_drain_ratio', 'BullMQ', 'one worker'],
    ],
  },
  {
    file: 'peers-latency.svg',
    title: 'From commit to handler',
    subtitle: '200 per second; median / 99th percentile; lower is better',
    about: `The time from the commit of a message to the call of its handler, in one process; writers have connections of their own, so that the worker has to be notified by the server. Ackord's handler is called after its transaction has begun and the inbox has accepted the message. On Redis its relay is woken at most once in 10 ms, which is most of its median.`,
    unit: 'milliseconds',
    others: ['By hand', 'pg-boss', 'graphile-worker', 'BullMQ'],
    bars: [
      ['peers', 'hand_latency_p50_ms', 'By hand', 'PostgreSQL, LISTEN', 'hand_latency_p99_ms'],
      ['peers', 'ackord_latency_p50_ms', 'Ackord', 'PostgreSQL, relay', 'ackord_latency_p99_ms'],
      ['peers', 'pg_boss_latency_p50_ms', 'pg-boss', 'PostgreSQL', 'pg_boss_latency_p99_ms'],
      ['peers', 'graphile_worker_latency_p50_ms', 'graphile-worker', 'PostgreSQL', 'graphile_worker_latency_p99_ms'],
      ['peers', 'redis_hand_latency_p50_ms', 'By hand', 'Redis, XREADGROUP', 'redis_hand_latency_p99_ms'],
      ['peers', 'redis_ackord_latency_p50_ms', 'Ackord', 'Redis, relay', 'redis_ackord_latency_p99_ms'],
      ['peers', 'bullmq_latency_p50_ms', 'BullMQ', 'Redis', 'bullmq_latency_p99_ms'],
    ],
  },
  {
    file: 'peers-snapshot.svg',
    title: 'While an old snapshot is held',
    subtitle: 'PostgreSQL; median / 99th percentile; lower is better',
    about: `The same latency at a higher rate, at the end of a minute in which another transaction keeps a snapshot, as a long report or a backup does. PostgreSQL cannot remove the rows of finished messages meanwhile, and whoever looks for the next message walks over them.`,
    unit: 'milliseconds',
    others: ['By hand', 'pg-boss', 'graphile-worker'],
    bars: [
      ['peers', 'hand_snapshot_p50_ms', 'By hand', 'LISTEN', 'hand_snapshot_p99_ms'],
      ['peers', 'ackord_source_snapshot_p50_ms', 'Ackord', 'outboxSource()', 'ackord_source_snapshot_p99_ms'],
      ['peers', 'pg_boss_snapshot_p50_ms', 'pg-boss', 'batches, transactional', 'pg_boss_snapshot_p99_ms'],
      ['peers', 'graphile_worker_snapshot_p50_ms', 'graphile-worker', 'one per transaction', 'graphile_worker_snapshot_p99_ms'],
    ],
  },
]

/**
 * The charts that have figures, with their SVG. A figure that was not measured has no bar.
 * @param {Results} results @returns {{ chart: Chart, svg: string }[]}
 */
export function drawCharts(results) {
  return charts.flatMap((chart) => {
    const { title, subtitle, unit, baseline, others = [] } = chart
    const bars = chart.bars.flatMap(([benchmark, figure, label, note, second = '']) => {
      const value = results[benchmark]?.figures[figure]
      const upper = second === '' ? undefined : results[benchmark]?.figures[second]
      if (typeof value !== 'number') return []
      return [{ label, note, value, other: others.includes(label), ...(typeof upper === 'number' ? { upper } : {}) }]
    })
    if (bars.length === 0) return []
    const format = { ratio: formatRatio, milliseconds: formatMilliseconds, perSecond: formatRate }[unit]
    const line = baseline === undefined ? undefined : { value: 1, label: baseline }
    return [{ chart, svg: barChart({ title, subtitle, bars, format, baseline: line }) }]
  })
}

/** @param {number} value */
function formatRatio(value) {
  return value.toFixed(2)
}

/** @param {number} value */
function formatRate(value) {
  return `${value.toLocaleString('en-US')} /s`
}

/** A handler may be called before the writer has read the answer to its commit; that is measured as 0. @param {number} value @param {number} [upper] */
export function formatMilliseconds(value, upper) {
  const texts = [value, ...(upper === undefined ? [] : [upper])].map((one) => (one < 0.1 ? '< 0.1' : String(one)))
  return `${texts.join(' / ')} ms`
}
