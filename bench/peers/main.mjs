// @ts-check
// Compares Ackord with job queues and with code by hand, in alternating rounds, and prints one line of JSON. `npm run -s bench -- peers --json` runs it on the newest
// Node LTS. `--short` is one round of each measure with few messages; `--only ackord,pg_boss` and `--measures drain,append` choose.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { parseArgs } from 'node:util'
import { figureRows, ratios, spread } from '@ackord/bench/figures'
import { connections, createOrders } from './contestant.mjs'
import { ackordGroups, ackordRelay, ackordSource } from './contestants/ackord-postgres.mjs'
import { ackordRedisRelay, ackordRedisSource } from './contestants/ackord-redis.mjs'
import { bullmq } from './contestants/bullmq.mjs'
import { graphileWorker } from './contestants/graphile-worker.mjs'
import { handPostgres, handPostgresInBatches } from './contestants/hand-postgres.mjs'
import { handRedis } from './contestants/hand-redis.mjs'
import { pgBoss } from './contestants/pg-boss.mjs'
import { pgTransactionalOutbox } from './contestants/pg-transactional-outbox.mjs'
import { append, backlog, drain, latency, noop, snapshot } from './measure.mjs'

/** In this order in each round, each peer beside Ackord. @type {readonly import('./contestant.mjs').Contestant[]} */
const contestants = [
  handPostgres,
  ackordRelay,
  pgBoss,
  ackordGroups,
  graphileWorker,
  ackordSource,
  handPostgresInBatches,
  pgTransactionalOutbox,
  handRedis,
  ackordRedisRelay,
  bullmq,
  ackordRedisSource,
]

/** @type {readonly import('./contestant.mjs').Measure[]} */
const measures = ['noop', 'drain', 'append', 'latency', 'snapshot', 'backlog']

/** The code by hand to which the ratios of a store refer. */
const baselines = { PostgreSQL: handPostgres.name, Redis: handRedis.name }

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    short: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    count: { type: 'string' },
    seconds: { type: 'string' },
    'snapshot-seconds': { type: 'string' },
    backlog: { type: 'string' },
    only: { type: 'string' },
    measures: { type: 'string' },
  },
})
const defaults = values.short
  ? { rounds: 1, count: 500, seconds: 2, 'snapshot-seconds': 3, backlog: 2000 }
  : { rounds: 5, count: 5000, seconds: 10, 'snapshot-seconds': 60, backlog: 1_000_000 }
/** @param {keyof typeof defaults} option */
const numberOf = (option) => Number(values[option] ?? defaults[option])
const rounds = numberOf('rounds')
const count = numberOf('count')
const load = { perSecond: 200, seconds: numberOf('seconds') }
/** Enough messages to leave many dead rows behind. */
const snapshotLoad = { perSecond: 400, seconds: numberOf('snapshot-seconds') }
const backlogSize = numberOf('backlog')
const chosen = contestants.filter(({ name }) => values.only?.split(',').includes(name) ?? true)
const chosenMeasures = measures.filter((measure) => values.measures?.split(',').includes(measure) ?? true)

/** Storing a large backlog takes longer than handling a part of it, so it stays through all rounds. @type {Map<string, import('./contestant.mjs').Session>} */
const backlogs = new Map()
/** The results of all rounds, by figure. @type {Map<string, number[]>} */
const results = new Map()
try {
  // Round 0 is a warm-up. The contestants of a measure follow each other directly, so that a busy minute of the machine affects all of them.
  for (let round = 0; round <= rounds; round += 1) {
    for (const measure of chosenMeasures) {
      for (const contestant of chosen.filter((one) => one.measures.includes(measure))) {
        const figures = await run(contestant, measure, round === 0)
        const line = Object.entries(figures).map(([figure, value]) => `${figure} ${value.toFixed(1)}`)
        process.stderr.write(`${round === 0 ? 'warm-up' : `round ${round}/${rounds}`}: ${contestant.name} ${line.join(', ')}\n`)
        if (round === 0) continue
        for (const [figure, value] of Object.entries(figures)) {
          const name = `${contestant.name}_${figure}`
          results.set(name, [...(results.get(name) ?? []), value])
        }
      }
    }
  }
} finally {
  for (const session of backlogs.values()) await session.close()
}

/**
 * One measurement, on tables or keys of its own.
 *
 * @param {import('./contestant.mjs').Contestant} contestant
 * @param {import('./contestant.mjs').Measure} measure
 * @param {boolean} isWarmUp
 * @returns {Promise<Record<string, number>>}
 */
async function run(contestant, measure, isWarmUp) {
  if (measure === 'backlog') return await runBacklog(contestant)
  const shortened = (/** @type {typeof load} */ full) => (isWarmUp ? { ...full, seconds: Math.min(2, full.seconds) } : full)
  const session = await contestant.open(measure)
  try {
    if (measure === 'noop') return { noop_per_s: await noop(session, count) }
    if (measure === 'drain') return { drain_per_s: await drain(session, count) }
    if (measure === 'append') return { append_per_s: await append(session, count) }
    const { p50, p99 } = measure === 'latency' ? await latency(session, shortened(load)) : await snapshot(session, shortened(snapshotLoad))
    return { [`${measure}_p50_ms`]: p50, [`${measure}_p99_ms`]: p99 }
  } finally {
    await session.stop()
    await session.close()
  }
}

/** @param {import('./contestant.mjs').Contestant} contestant */
async function runBacklog({ name, open }) {
  let session = backlogs.get(name)
  if (session === undefined) {
    session = await open('backlog')
    backlogs.set(name, session)
    // A worker may fetch more than it handles.
    await session.fill(createOrders(backlogSize + 2 * count * (rounds + 1)))
  }
  try {
    return { backlog_per_s: await backlog(session, count) }
  } finally {
    await session.stop()
  }
}

/** @param {string} name */
function versionOf(name) {
  const { resolve } = createRequire(import.meta.url)
  const [path = ''] = resolve(name).split(`/node_modules/${name}/`)
  return JSON.parse(readFileSync(`${path}/node_modules/${name}/package.json`, 'utf8')).version
}

/** The figures of a measure. @param {string} measure */
const figuresOf = (measure) =>
  measure === 'latency' || measure === 'snapshot' ? [`${measure}_p50_ms`, `${measure}_p99_ms`] : [`${measure}_per_s`]

/** @type {Record<string, unknown>} */
const figures = {
  rounds,
  messages: count,
  connections,
  load_per_s: load.perSecond,
  load_seconds: load.seconds,
  snapshot_load_per_s: snapshotLoad.perSecond,
  snapshot_seconds: snapshotLoad.seconds,
  backlog_messages: backlogSize,
}
for (const [figure, measured] of results) Object.assign(figures, spread(figure, measured))
// Ratios are calculated for each round, because the contestants of a round were measured within the same minute.
for (const { name, store, against = {} } of chosen) {
  for (const what of ['drain', 'append']) {
    const [own, baseline] = [results.get(`${name}_${what}_per_s`), results.get(`${baselines[store]}_${what}_per_s`)]
    if (own === undefined || baseline === undefined || name === baselines[store]) continue
    Object.assign(figures, spread(`${name}_${what}_ratio`, ratios(own, baseline)))
  }
  for (const [measure, ackord] of Object.entries(against)) {
    for (const figure of figuresOf(measure)) {
      const [own, ours] = [results.get(`${name}_${figure}`), results.get(`${ackord}_${figure}`)]
      if (own !== undefined && ours !== undefined) Object.assign(figures, spread(`${name}_${figure}_to_ackord`, ratios(own, ours)))
    }
  }
}
const packages = ['pg-boss', 'graphile-worker', 'bullmq', 'pg-transactional-outbox', 'pg', 'ioredis']
const versions = Object.fromEntries(packages.map((name) => [name, versionOf(name)]))
const settings = Object.fromEntries(chosen.map((contestant) => [contestant.name, contestant.settings]))
if (values.json) console.log(JSON.stringify({ ...figures, versions: { Node: process.versions.node, ...versions }, settings }))
else console.table(figureRows(figures))
