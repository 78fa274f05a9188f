// @ts-check
// Compares Ackord with job queues and with code by hand, in alternating rounds, and prints one line of JSON. `npm run -s bench -- peers --json` runs it on the newest
// Node LTS. Short runs: `--rounds 1 --count 1000 --seconds 3 --only ackord,pg_boss`.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { parseArgs } from 'node:util'
import { connections } from './contestant.mjs'
import { ackordGroups, ackordRelay, ackordSource } from './contestants/ackord-postgres.mjs'
import { ackordRedisRelay, ackordRedisSource } from './contestants/ackord-redis.mjs'
import { bullmq } from './contestants/bullmq.mjs'
import { graphileWorker } from './contestants/graphile-worker.mjs'
import { handPostgres, handPostgresInBatches } from './contestants/hand-postgres.mjs'
import { handRedis } from './contestants/hand-redis.mjs'
import { pgBoss } from './contestants/pg-boss.mjs'
import { append, drain, latency } from './measure.mjs'

/** In this order in each round, each peer beside Ackord. @type {readonly import('./contestant.mjs').Contestant[]} */
const contestants = [
  handPostgres,
  ackordRelay,
  pgBoss,
  ackordGroups,
  graphileWorker,
  ackordSource,
  handPostgresInBatches,
  handRedis,
  ackordRedisRelay,
  bullmq,
  ackordRedisSource,
]

/** The code by hand to which the ratios of a store refer. */
const baselines = { PostgreSQL: handPostgres.name, Redis: handRedis.name }

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '5' },
    count: { type: 'string', default: '5000' },
    seconds: { type: 'string', default: '10' },
    only: { type: 'string' },
  },
})
const rounds = Number(values.rounds)
const count = Number(values.count)
const load = { perSecond: 200, seconds: Number(values.seconds) }
const only = values.only?.split(',')
const chosen = contestants.filter(({ name }) => only?.includes(name) ?? true)

/** The results of all rounds, by figure. @type {Map<string, number[]>} */
const results = new Map()
// Round 0 is a warm-up. The contestants of a measure follow each other directly, so that a busy minute of the machine affects all of them.
for (let round = 0; round <= rounds; round += 1) {
  for (const measure of /** @type {const} */ (['drain', 'append', 'latency'])) {
    for (const contestant of chosen.filter(({ measures }) => measures.includes(measure))) {
      const figures = await run(contestant, measure, round === 0 ? { ...load, seconds: Math.min(2, load.seconds) } : load)
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

/**
 * One measurement, on tables or keys of its own.
 *
 * @param {import('./contestant.mjs').Contestant} contestant
 * @param {import('./contestant.mjs').Measure} measure
 * @param {{ perSecond: number, seconds: number }} load
 * @returns {Promise<Record<string, number>>}
 */
async function run(contestant, measure, load) {
  const session = await contestant.open(measure)
  try {
    if (measure === 'drain') return { drain_per_s: await drain(session, count) }
    if (measure === 'append') return { append_per_s: await append(session, count) }
    const { p50, p99 } = await latency(session, load)
    return { latency_p50_ms: p50, latency_p99_ms: p99 }
  } finally {
    await session.close()
  }
}

/** @param {readonly number[]} numbers */
function median(numbers) {
  const sorted = numbers.toSorted((one, other) => one - other)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? (sorted[middle] ?? NaN) : ((sorted[middle - 1] ?? NaN) + (sorted[middle] ?? NaN)) / 2
}

/** Rates without decimals, milliseconds and ratios with two. @param {string} figure @param {number} value */
function rounded(figure, value) {
  return figure.endsWith('_per_s') ? Math.round(value) : Math.round(value * 100) / 100
}

/** Adds the median and the range of a figure. @param {string} figure @param {readonly number[]} measured */
function addRange(figure, measured) {
  figures[figure] = rounded(figure, median(measured))
  figures[`${figure}_min`] = rounded(figure, Math.min(...measured))
  figures[`${figure}_max`] = rounded(figure, Math.max(...measured))
}

/** @param {string} one @param {string} other @returns {number[] | undefined} */
function ratiosOf(one, other) {
  const [own, baseline] = [results.get(one), results.get(other)]
  return baseline === undefined ? undefined : own?.map((value, round) => value / (baseline[round] ?? NaN))
}

/** @param {string} name */
function versionOf(name) {
  const { resolve } = createRequire(import.meta.url)
  const [path = ''] = resolve(name).split(`/node_modules/${name}/`)
  return JSON.parse(readFileSync(`${path}/node_modules/${name}/package.json`, 'utf8')).version
}

/** @type {Record<string, unknown>} */
const figures = { rounds, messages: count, connections, load_per_s: load.perSecond, load_seconds: load.seconds }
for (const [figure, measured] of results) addRange(figure, measured)
// Ratios are calculated for each round, because the contestants of a round were measured within the same minute.
for (const { name, store, against = {} } of chosen) {
  for (const what of ['drain', 'append']) {
    const ratios = ratiosOf(`${name}_${what}_per_s`, `${baselines[store]}_${what}_per_s`)
    if (ratios !== undefined && name !== baselines[store]) figures[`${name}_${what}_ratio`] = rounded('ratio', median(ratios))
  }
  for (const [measure, ackord] of Object.entries(against)) {
    for (const figure of measure === 'latency' ? ['latency_p50_ms', 'latency_p99_ms'] : [`${measure}_per_s`]) {
      const ratios = ratiosOf(`${name}_${figure}`, `${ackord}_${figure}`)
      if (ratios !== undefined) addRange(`${name}_${figure}_to_ackord`, ratios)
    }
  }
}
const versions = Object.fromEntries(['pg-boss', 'graphile-worker', 'bullmq', 'pg', 'ioredis'].map((name) => [name, versionOf(name)]))
const settings = Object.fromEntries(chosen.map((contestant) => [contestant.name, contestant.settings]))
if (values.json) console.log(JSON.stringify({ ...figures, versions: { Node: process.versions.node, ...versions }, settings }))
else console.table(figures)
