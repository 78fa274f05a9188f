import type pg from 'pg'
import { spread } from '../figures.ts'
import { type Rounds, rateOf, runRounds } from '../rounds.ts'
import { backlogSlowdowns } from './backlog.ts'
import { fillHandWritten, handWrittenTable, relayByHand } from './hand-written.ts'
import { idleStatements } from './idle.ts'
import { latency } from './latency.ts'
import { openWorld, type RelayWorld, relayRate } from './world.ts'

const rounds = { rounds: 5, count: 50_000 }
const steady = { perSecond: 200, seconds: 5 }
const busy = { perSecond: 500, seconds: 5 }
const keys = 1000
const keyOf = (index: number) => `key-${index % keys}`
const perKey = { order: 'perKey' } as const
const log = { mode: 'log' } as const

/** The relay on PostgreSQL, against a hand-written loop that claims 500 records and deletes them. */
export async function relay(): Promise<Record<string, unknown>> {
  await using world = await openWorld()
  await world.pool.query(handWrittenTable)
  const rates = await throughputs(world)
  const slowdowns = await backlogSlowdowns(rounds)
  await world.empty()
  const { same, apart, apartBusy } = await latencies(world)
  return {
    ...spread('hand_written_per_s', rates.of('hand')),
    ...spread('ackord_per_s', rates.of('owned')),
    ...spread('ratio', rates.ratios('owned', 'hand')),
    ...spread('row_leases_per_s', rates.of('leases')),
    ...spread('row_leases_ratio', rates.ratios('leases', 'hand')),
    ...spread('ratio_concurrency_2', rates.ratios('ownedTwice', 'hand')),
    ...spread('row_leases_ratio_concurrency_2', rates.ratios('leasesTwice', 'hand')),
    ...spread('per_key_per_s', rates.of('keyed')),
    ...spread('log_per_s', rates.of('logged')),
    ...spread('log_ratio', rates.ratios('logged', 'hand')),
    ...spread('log_ratio_concurrency_2', rates.ratios('loggedTwice', 'hand')),
    ...spread('log_per_key_ratio', rates.ratios('loggedKeyed', 'keyed')),
    ...spread('hot_key_slowdown', slowdownsOf(rates.ratios('besideHotKey', 'keyed'))),
    ...spread('backlog_slowdown', slowdowns.finished),
    ...spread('pending_backlog_slowdown', slowdowns.pending),
    ...spread('latency_p50_ms', same.p50),
    ...spread('latency_p99_ms', same.p99),
    ...spread('notified_latency_p50_ms', apart.p50),
    ...spread('notified_latency_p99_ms', apart.p99),
    ...spread('notified_latency_at_500_p50_ms', apartBusy.p50),
    ...spread('notified_latency_at_500_p99_ms', apartBusy.p99),
    idle_statements_per_minute: Math.max(await idleStatements(world, 'none'), await idleStatements(world, 'perKey')),
  }
}

type Variant =
  | 'hand'
  | 'leases'
  | 'owned'
  | 'keyed'
  | 'besideHotKey'
  | 'leasesTwice'
  | 'ownedTwice'
  | 'logged'
  | 'loggedTwice'
  | 'loggedKeyed'

function throughputs(world: RelayWorld): Promise<Rounds<Variant>> {
  return runRounds(
    {
      hand: (count) => byHand(world.pool, count),
      leases: (count) => filled(world, count, {}),
      owned: (count) => filled(world, count, perKey),
      keyed: (count) => filled(world, count, { ...perKey, keyOf }),
      besideHotKey: (count) => besideHotKey(world, count),
      // With two batches the database and this process work in parallel, which the hand-written loop does not do.
      leasesTwice: (count) => filled(world, count, {}, 2),
      ownedTwice: (count) => filled(world, count, perKey, 2),
      logged: (count) => filled(world, count, log),
      loggedTwice: (count) => filled(world, count, log, 2),
      loggedKeyed: (count) => filled(world, count, { ...log, keyOf }),
    },
    rounds,
  )
}

async function byHand(pool: pg.Pool, count: number): Promise<number> {
  await pool.query('TRUNCATE hand_outbox')
  await fillHandWritten(pool, count)
  return await rateOf(count, () => relayByHand(pool, async () => {}))
}

async function filled(
  world: RelayWorld,
  count: number,
  options: Parameters<RelayWorld['fill']>[1] & object,
  concurrency = 1,
): Promise<number> {
  const { keyOf: _, ...database } = options
  await world.empty()
  await world.fill(count, options)
  return await relayRate([world.outbox(database)], count, { concurrency })
}

/** The rate of the other keys, with 200,000 records of one key ahead of them. */
async function besideHotKey(world: RelayWorld, count: number): Promise<number> {
  await world.empty()
  await world.fill(200_000, { ...perKey, keyOf: () => 'hot' })
  await world.fill(count, { ...perKey, keyOf })
  return await relayRate([world.outbox(perKey)], count, { counts: ({ partitionKey }) => partitionKey !== 'hot' })
}

interface Latencies {
  readonly p50: number[]
  readonly p99: number[]
}

/** With the relay in the writing process and apart from it, alternately. The first round is a warm-up. */
async function latencies(world: RelayWorld): Promise<Record<'same' | 'apart' | 'apartBusy', Latencies>> {
  const variants = { same: { ...steady, apart: false }, apart: { ...steady, apart: true }, apartBusy: { ...busy, apart: true } }
  const results = { same: noLatencies(), apart: noLatencies(), apartBusy: noLatencies() }
  for (let round = 0; round <= rounds.rounds; round += 1) {
    for (const name of ['same', 'apart', 'apartBusy'] as const) {
      const { p50, p99 } = await latency(world, variants[name])
      if (round === 0) continue
      results[name].p50.push(p50)
      results[name].p99.push(p99)
    }
  }
  return results
}

function noLatencies(): Latencies {
  return { p50: [], p99: [] }
}

function slowdownsOf(ratios: readonly number[]): readonly number[] {
  return ratios.map((ratio) => 1 - ratio)
}
