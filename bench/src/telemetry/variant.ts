import { telemetry as createTelemetry, type Telemetry } from '@ackord/telemetry'
import { context } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { AggregationTemporality, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import { AlwaysOnSampler, BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { rateOf } from '../rounds.ts'
import { throughAckord } from '../sql/postgres.ts'
import { poolOn, type Round } from './tables.ts'

// One variant of the benchmark: `variant.js plain|off|on SCHEMA`. Runs a round for each message of its parent.

const connections = 16
const count = 8000
const [, , variant, schema = ''] = process.argv
const pool = poolOn(schema, connections)
let spans = 0
const used = variant === 'plain' ? undefined : variant === 'off' ? createTelemetry() : createTelemetry(startSdk())

process.on('message', () => {
  void measure(used).then((round) => process.send?.(round))
})

async function measure(telemetry: Telemetry | undefined): Promise<Round> {
  await pool.query('TRUNCATE orders, ackord_inbox, ackord_outbox')
  const before = process.cpuUsage()
  const rate = await rateOf(count, () => throughAckord(pool, count, { concurrency: connections, telemetry }))
  const { user, system } = process.cpuUsage(before)
  return { rate, cpu: (user + system) / count, spans }
}

/** An SDK as services have it: spans are exported in batches, metrics once per second. The exporters only count, because a collector is another process. */
function startSdk() {
  const spanProcessor = new BatchSpanProcessor(
    {
      export(exported, done) {
        spans += exported.length
        done({ code: 0 })
      },
      shutdown: async () => {},
    },
    { maxQueueSize: 2 * count },
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
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  return {
    tracerProvider: new BasicTracerProvider({ sampler: new AlwaysOnSampler(), spanProcessors: [spanProcessor] }),
    meterProvider: new MeterProvider({ readers: [reader] }),
  }
}
