import type { ClaimedRecord } from '@ackord/outbox'
import type { Bounds } from './bounds.ts'
import { type Fill, type OutboxTable, openOutboxTable, type RelayStore, tableName } from './outbox-table.ts'
import { describePlan, type ExplainedPlan, figuresOf } from './plan.ts'

const batchSize = 500
const rounds = 8
const recordsPerRound = 20_000
/** In milliseconds. A claim that is broken would keep us for hours. */
const longestRound = 10_000

/**
 * Wide, because the machine may be busy with other things, and still far from what a claim costs that walks through its table: hundreds of
 * thousands of rows removed, a tenth of the rate, seconds in place of milliseconds.
 */
const bound = {
  /** Rows that a statement reads in vain. */
  removed: 5 * batchSize,
  buffersPerRecord: 20,
  /** Of the rate of one relay on the table where nothing is wrong, in turn with it. */
  rateToBase: 0.5,
  lateToEarlyClaims: 3,
  /** Milliseconds. */
  claimP99: 1000,
} as const

interface Situation {
  readonly about: string
  /** What stands before the records that can be published. */
  readonly head: readonly Fill[]
  readonly except: readonly string[]
}

const base: Situation = { about: '1,000,000 pending and 1,000,000 published records', head: [], except: [] }
const down = 'a-broker-that-is-down'

/** What is at the head of a table that is else like the base. */
const situations: Readonly<Record<string, Situation>> = {
  backing_off: { about: '200,000 that back off at the head', head: [{ rows: 200_000, state: 'waiting' }], except: [] },
  tripped: {
    about: '500,000 of a tripped destination at the head',
    head: [{ rows: 500_000, state: 'ready', destination: down }],
    except: [down],
  },
}

interface Round {
  /** Records per second, claimed and settled. */
  readonly rate: number
  /** Milliseconds of each claim. */
  readonly claims: readonly number[]
}

/** The claim stays fast on large tables, whatever is at their head. */
export async function claims(bounds: Bounds): Promise<Record<string, unknown>> {
  await using baseTable = await openFilled('base', base)
  const figures: Record<string, unknown> = {
    base: {
      ...(await measurePlans('base', baseTable, base, bounds)),
      ...(await measureLoads(baseTable, bounds)),
      ...(await measureTen('base', baseTable, base, bounds)),
    },
  }
  for (const [name, situation] of Object.entries(situations)) {
    await using table = await openFilled(name, situation)
    await baseTable.vacuum()
    figures[name] = {
      // First, while the table is as a vacuum leaves it: the dead rows of later claims are looked at too, and their number is anybody's guess.
      ...(await measurePlans(name, table, situation, bounds)),
      ...(await measureAgainstBase(name, table, situation, baseTable, bounds)),
      ...(await measureTen(name, table, situation, bounds)),
    }
  }
  return figures
}

async function openFilled(name: string, { about, head }: Situation): Promise<OutboxTable> {
  console.error(`${name}: ${about}`)
  const start = performance.now()
  const table = await openOutboxTable(name)
  await table.fill({ rows: 1_000_000, state: 'published' })
  for (const part of head) await table.fill(part)
  await table.fill({ rows: 1_000_000, state: 'ready' })
  await table.vacuum()
  console.error(`  filled in ${rounded((performance.now() - start) / 1000)} s`)
  return table
}

/** How the server runs the very statements that the store sends. */
async function measurePlans(name: string, table: OutboxTable, { except }: Situation, bounds: Bounds): Promise<Record<string, number>> {
  await using relay = table.connect(2)
  let claimed: readonly ClaimedRecord[] = []
  const claiming = await relay.pool.explained(async () => {
    claimed = await claim(relay, except)
  })
  const settling = await relay.pool.explained(() => relay.store.settle(claimed.map(published)))
  const check = (statement: string, plans: readonly ExplainedPlan[]) => {
    const all = plans.map((plan) => figuresOf(plan, tableName))
    const total = (figure: keyof (typeof all)[number]) => all.reduce((sum, each) => sum + each[figure], 0)
    const perRecord = rounded(total('buffers') / batchSize)
    console.error(`  ${statement}, ${rounded(total('milliseconds'))} ms, ${perRecord} buffers per record:`)
    for (const plan of plans) console.error(describePlan(plan).replaceAll(/^/gm, '    '))
    bounds.atMost(`${name}: the number of Seq Scans in a ${statement}`, total('seqScans'), 0)
    bounds.atMost(`${name}: the number of rows that a ${statement} reads in vain`, total('removed'), bound.removed)
    bounds.atMost(`${name}: buffers per record of a ${statement}`, perRecord, bound.buffersPerRecord)
    return { [`${statement}_removed`]: total('removed'), [`${statement}_buffers_per_record`]: perRecord }
  }
  return { ...check('claim', claiming), ...check('settle', settling) }
}

/** One, two and four relays at once. */
async function measureLoads(table: OutboxTable, bounds: Bounds): Promise<Record<string, number>> {
  const figures: Record<string, number> = {}
  const all: Round[] = []
  for (const relays of [1, 2, 4]) {
    await using relay = table.connect(relays)
    const done: Round[] = []
    for (let count = 0; count < rounds; count += 1) done.push(await runRound(relay, relays, base.except))
    figures[`per_s_with_${relays}`] = bestOf(`${relays} at once`, done)
    all.push(...done)
  }
  return { ...figures, ...timesOf('base', all, bounds) }
}

/** In turn with the base, so that other load meets both. */
async function measureAgainstBase(
  name: string,
  table: OutboxTable,
  { except }: Situation,
  baseTable: OutboxTable,
  bounds: Bounds,
): Promise<Record<string, number>> {
  await using relay = table.connect(1)
  await using baseRelay = baseTable.connect(1)
  const done: { readonly base: Round[]; readonly here: Round[] } = { base: [], here: [] }
  for (let count = 0; count < rounds; count += 1) {
    done.base.push(await runRound(baseRelay, 1, base.except))
    done.here.push(await runRound(relay, 1, except))
  }
  const best = { base: bestOf('the base', done.base), here: bestOf('here', done.here) }
  const rateToBase = rounded(best.here / best.base)
  bounds.atLeast(`${name}: the rate against that of the base`, rateToBase, bound.rateToBase)
  return { per_s: best.here, base_per_s: best.base, rate_to_base: rateToBase, ...timesOf(name, done.here, bounds) }
}

/**
 * Ten claims on one connection. A statement with a name would get a generic plan after five, and be slow from then on: the fastest of the
 * later ones is compared with the fastest of the earlier ones, on three connections, because a single claim may meet any load.
 */
async function measureTen(name: string, table: OutboxTable, { except }: Situation, bounds: Bounds): Promise<Record<string, unknown>> {
  const fastest: number[] = Array(10).fill(Number.POSITIVE_INFINITY)
  let genericPlans = 0
  for (let connection = 0; connection < 3; connection += 1) {
    await using relay = table.connect(1)
    for (const place of fastest.keys()) fastest[place] = Math.min(fastest[place] ?? 0, await carryBatch(relay, except))
    const { rows } = await relay.query('SELECT coalesce(sum(generic_plans), 0)::int AS n FROM pg_prepared_statements')
    genericPlans += rows[0].n
  }
  const inRow = fastest.map(rounded)
  console.error(`  ten in a row on one connection: ${inRow.join(', ')} ms`)
  const lateToEarly = rounded(Math.min(...inRow.slice(5)) / Math.min(...inRow.slice(1, 5)))
  bounds.atMost(`${name}: the sixth to tenth claim on a connection against the second to fifth`, lateToEarly, bound.lateToEarlyClaims)
  bounds.atMost(`${name}: the number of generic plans`, genericPlans, 0)
  return { ten_claims_ms: inRow, generic_plans: genericPlans }
}

/** So many loops at once, each as a relay has it: claim, settle, the next. */
async function runRound(relay: RelayStore, loops: number, except: readonly string[]): Promise<Round> {
  let left = recordsPerRound / batchSize
  const durations: number[] = []
  const start = performance.now()
  await Promise.all(
    Array.from({ length: loops }, async () => {
      while (left > 0 && performance.now() - start < longestRound) {
        left -= 1
        durations.push(await carryBatch(relay, except))
      }
    }),
  )
  return { rate: Math.round(((durations.length * batchSize) / (performance.now() - start)) * 1000), claims: durations }
}

/** Claims and settles a batch. Gives the milliseconds of the claim. */
async function carryBatch(relay: RelayStore, except: readonly string[]): Promise<number> {
  const start = performance.now()
  const claimed = await claim(relay, except)
  const duration = performance.now() - start
  const answers = await relay.store.settle(claimed.map(published))
  if (answers.some((answer) => answer !== 'applied')) throw new Error('A claim was lost although its lease had not run out.')
  return duration
}

async function claim({ store }: RelayStore, except: readonly string[]): Promise<readonly ClaimedRecord[]> {
  const claimed = await store.claim({ limit: batchSize, lease: 30_000, except })
  // Nothing is measured that did not happen.
  if (claimed.length !== batchSize) throw new Error(`A claim of ${batchSize} records found ${claimed.length}.`)
  return claimed
}

function published({ id, token }: ClaimedRecord) {
  return { id, token, result: 'published' } as const
}

/** Other load only ever slows a round down. */
function bestOf(what: string, done: readonly Round[]): number {
  const rates = done.map(({ rate }) => rate)
  console.error(`  ${what}: ${rates.join(', ')} records/s`)
  return Math.max(...rates)
}

function timesOf(name: string, done: readonly Round[], bounds: Bounds): Record<string, number> {
  const durations = done.flatMap((round) => round.claims).sort((one, other) => one - other)
  const at = (part: number) => rounded(durations[Math.ceil(durations.length * part) - 1] ?? Number.NaN)
  const [median, p99, max] = [at(0.5), at(0.99), at(1)]
  console.error(`  a claim takes ${median} ms, p99 ${p99} ms, at most ${max} ms`)
  bounds.atMost(`${name}: the p99 of a claim in ms`, p99, bound.claimP99)
  return { claim_ms_median: median, claim_ms_p99: p99, claim_ms_max: max }
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
