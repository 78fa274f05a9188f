import { createSchema } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { telemetry as createTelemetry, type Telemetry } from '@ackord/telemetry'
import { context } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { AggregationTemporality, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import { AlwaysOnSampler, BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base'
import pg from 'pg'
import { rateOf } from '../rounds.ts'
import { throughAckord } from '../sql/postgres.ts'

const url = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'
const schema = `ackord_bench_telemetry_${process.pid}`
const connections = 16
const rounds = 9
const count = 4000

interface Round {
  readonly rate: number
  /** Microseconds of processor time per message, of this process. */
  readonly cpu: number
}

/** What telemetry costs when messages are handled on PostgreSQL: without an SDK, and with traces and metrics of every message. */
export async function telemetry(): Promise<Record<string, unknown>> {
  const pool = new pg.Pool({ connectionString: url, max: connections, options: `-c search_path=${schema}` })
  const sdk = startSdk()
  const variants: Readonly<Record<string, () => Promise<Round>>> = {
    plain: () => measure(pool, undefined),
    off: () => measure(pool, createTelemetry()),
    on: () => sdk.during(() => measure(pool, createTelemetry(sdk.providers))),
  }
  const results = new Map<string, Round[]>(Object.keys(variants).map((name) => [name, []]))
  try {
    await pool.query(`CREATE SCHEMA ${schema}`)
    await createSchema(fromPg(pool))
    await pool.query('CREATE TABLE orders (id text PRIMARY KEY, total integer NOT NULL)')
    for (let round = 0; round <= rounds; round += 1) {
      // In another order each time, so that no variant always pays for the garbage of the same other one. Not collected in between: that would hide what a variant leaves.
      const turns = Object.entries(variants)
      for (const [name, run] of [...turns.slice(round % turns.length), ...turns.slice(0, round % turns.length)]) {
        const result = await run()
        // The first round is a warm-up.
        if (round > 0) results.get(name)?.push(result)
      }
    }
  } finally {
    await pool.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
    await pool.end()
    await sdk.shutdown()
  }
  const of = (name: string, value: (round: Round) => number) => median((results.get(name) ?? []).map(value))
  const ratio = (name: string) => {
    const plain = results.get('plain') ?? []
    return median((results.get(name) ?? []).map((round, index) => round.rate / (plain[index]?.rate ?? Number.NaN)))
  }
  const rate = (name: string) => of(name, (round) => round.rate)
  const cpu = (name: string) => Math.round(of(name, (round) => round.cpu))
  return {
    plain_per_s: Math.round(rate('plain')),
    off_per_s: Math.round(rate('off')),
    on_per_s: Math.round(rate('on')),
    off_ratio: rounded(ratio('off')),
    on_ratio: rounded(ratio('on')),
    plain_cpu_us: cpu('plain'),
    off_cpu_us: cpu('off'),
    on_cpu_us: cpu('on'),
    spans: sdk.exported(),
  }
}

async function measure(pool: pg.Pool, used: Telemetry | undefined): Promise<Round> {
  await pool.query('TRUNCATE orders, ackord_inbox, ackord_outbox')
  const before = process.cpuUsage()
  const rate = await rateOf(count, () => throughAckord(pool, count, { concurrency: connections, telemetry: used }))
  const { user, system } = process.cpuUsage(before)
  return { rate, cpu: (user + system) / count }
}

/** An SDK as services have it: spans are exported in batches, metrics once per second. The exporters only count, because a collector is another process. */
function startSdk() {
  let spans = 0
  const spanProcessor = new BatchSpanProcessor(
    {
      export(exported, done) {
        spans += exported.length
        done({ code: 0 })
      },
      shutdown: async () => {},
    },
    { maxQueueSize: 2 * count * rounds },
  )
  const reader = new PeriodicExportingMetricReader({
    exporter: {
      export: (_metrics, done) => done({ code: 0 }),
      forceFlush: async () => {},
      shutdown: async () => {},
      selectAggregationTemporality: () => AggregationTemporality.CUMULATIVE,
    },
    exportIntervalMillis: 1000,
    exportTimeoutMillis: 500,
  })
  const tracerProvider = new BasicTracerProvider({ sampler: new AlwaysOnSampler(), spanProcessors: [spanProcessor] })
  const meterProvider = new MeterProvider({ readers: [reader] })
  return {
    providers: { tracerProvider, meterProvider },
    exported: () => spans,
    /** The context manager is global, and part of the cost. */
    async during<R>(work: () => Promise<R>): Promise<R> {
      context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
      try {
        return await work()
      } finally {
        context.disable()
      }
    },
    async shutdown() {
      await tracerProvider.shutdown()
      await meterProvider.shutdown()
    },
  }
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

function rounded(ratio: number): number {
  return Math.round(ratio * 100) / 100
}
