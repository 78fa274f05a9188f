import { silentLogger } from '@ackord/core'
import { type OutboxStore, Relay } from '@ackord/outbox'
import { createSchema, sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import pg from 'pg'
import type { Bounds } from './bounds.ts'

const url = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

const keys = 20_000
/** Records per second, appended in this many transactions. */
const rate = 4000
const appendsPerSecond = 40
/** Seconds. */
const period = 10
const periods = 10

const bound = {
  /** The published records of the last period, compared with the first. */
  rate: 0.9,
  /** The median duration of a claim in the last period, compared with the first. Without a floor it grew to five times as much. */
  claim: 2.5,
} as const

interface PeriodFigures {
  readonly stored: number
  readonly published: number
  /** Milliseconds: median and 99th percentile. */
  readonly claim: readonly [number, number]
  readonly settle: readonly [number, number]
}

/**
 * A relay with order per key keeps its rate while another transaction holds a snapshot, so that the server can remove no deleted row: at the end, those of
 * 100 seconds are all still there.
 */
export async function heldSnapshot(bounds: Bounds): Promise<Record<string, unknown>> {
  const all = await run()
  const [first, last] = [all[0], all.at(-1)]
  const ratio = (one = 0, other = 0) => Math.round((one / other) * 100) / 100
  const figures = {
    rate_ratio: ratio(last?.published, first?.published),
    // If this is low, the machine was too busy to store the records, and the rate says nothing.
    stored_ratio: ratio(last?.stored, first?.stored),
    claim_ratio: ratio(last?.claim[0], first?.claim[0]),
  }
  const when = `under a held snapshot after ${(periods - 1) * period} seconds, compared with the first ${period}`
  bounds.atLeast(`the rate of a relay with order per key ${when}`, figures.rate_ratio, bound.rate)
  bounds.atMost(`the duration of its claims ${when}`, figures.claim_ratio, bound.claim)
  return {
    ...figures,
    claim_ms_first: first?.claim,
    claim_ms_last: last?.claim,
    settle_ms_first: first?.settle,
    settle_ms_last: last?.settle,
  }
}

async function run(): Promise<readonly PeriodFigures[]> {
  await using tables = await openTables()
  await using _snapshot = await holdSnapshot()
  const store = timed(tables.store)
  let published = 0
  const relay = new Relay(store, {
    logger: silentLogger,
    publisher: {
      async publish(_, messages) {
        published += messages.length
        return messages.map(() => ({ ok: true }))
      },
    },
  })
  await using _running = relay.start()
  const all: PeriodFigures[] = []
  let stored = 0
  let before = { stored, published }
  const startedAt = performance.now()
  for (let append = 0; all.length < periods; append += 1) {
    const dueAt = startedAt + (append * 1000) / appendsPerSecond
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, dueAt - performance.now())))
    await tables.append(rate / appendsPerSecond)
    stored += rate / appendsPerSecond
    if (performance.now() - startedAt < (all.length + 1) * period * 1000) continue
    const figures = { stored: stored - before.stored, published: published - before.published, ...store.take() }
    before = { stored, published }
    all.push(figures)
    console.error(`held snapshot, ${all.length * period} s: ${JSON.stringify(figures)}`)
  }
  return all
}

/** Measures claims that return records, and settlements. */
function timed(store: OutboxStore): OutboxStore & { take(): Pick<PeriodFigures, 'claim' | 'settle'> } {
  const times = { claim: [] as number[], settle: [] as number[] }
  const measured = async <Result extends readonly unknown[]>(list: number[], work: Promise<Result>): Promise<Result> => {
    const start = performance.now()
    const result = await work
    if (result.length > 0) list.push(performance.now() - start)
    return result
  }
  return Object.assign(Object.create(store) as OutboxStore, {
    claim: (options: Parameters<OutboxStore['claim']>[0]) => measured(times.claim, store.claim(options)),
    settle: (outcomes: Parameters<OutboxStore['settle']>[0]) => measured(times.settle, store.settle(outcomes)),
    take() {
      return { claim: quantiles(times.claim.splice(0)), settle: quantiles(times.settle.splice(0)) }
    },
  })
}

function quantiles(values: number[]): readonly [number, number] {
  const sorted = values.sort((one, other) => one - other)
  const at = (part: number) => Math.round((sorted[Math.ceil(sorted.length * part) - 1] ?? Number.NaN) * 10) / 10
  return [at(0.5), at(0.99)]
}

/** An idle transaction whose snapshot sees the rows as they are now. */
async function holdSnapshot(): Promise<AsyncDisposable> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await client.query('SELECT count(*) FROM pg_class')
  return { [Symbol.asyncDispose]: () => client.end() }
}

async function openTables() {
  const schema = `held_${process.pid}`
  const pool = new pg.Pool({ connectionString: url, options: `-c search_path=${schema}`, max: 8 })
  await pool.query(`CREATE SCHEMA ${schema}`)
  const database = fromPg(pool, { order: 'perKey' })
  await createSchema(database)
  return {
    store: sqlOutbox(database, { logger: silentLogger }),
    /** Inserted by SQL, so that little of the machine is needed for it. */
    async append(count: number) {
      await pool.query(
        `INSERT INTO ackord_outbox (state, destination, id, type, ordering_key, partition, data, attributes, available_at)
         SELECT 'ready', 'events', gen_random_uuid()::text, 't', 'key-' || key, hashtext('key-' || key) & 255, decode(repeat('78', 200), 'hex'),
           '{"id":"e","type":"t","source":"/s","specversion":"1.0"}', clock_timestamp()
         FROM (SELECT floor(random() * ${keys})::integer AS key FROM generate_series(1, ${count})) AS made`,
      )
    },
    async [Symbol.asyncDispose]() {
      await pool.query(`DROP SCHEMA ${schema} CASCADE`)
      await pool.end()
    },
  }
}
