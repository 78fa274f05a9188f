import { percentile, spread } from '../figures.ts'
import { brokerKinds } from './brokers.ts'
import { Processes } from './processes.ts'
import { type BrokerName, brokerNames } from './protocol.ts'
import { createTables, type Tables } from './tables.ts'

/** Keys are spread over this number of partitions, of which each relay owns an equal share. */
const partitions = 256

interface Size {
  readonly rounds: number
  readonly brokers: readonly BrokerName[]
  readonly relays: readonly number[]
  /** The orders before the measurement, those that are published at once, and those at a steady rate, below saturation. */
  readonly warmUp: number
  readonly count: number
  readonly perSecond: number
  readonly seconds: number
}

const full: Size = { rounds: 5, brokers: brokerNames, relays: [1, 2, 4], warmUp: 500, count: 4000, perSecond: 200, seconds: 5 }
const short: Size = { rounds: 1, brokers: brokerNames, relays: [1], warmUp: 10, count: 100, perSecond: 50, seconds: 1 }
const sizes: Readonly<Record<string, Size>> = { short, shortest: { ...short, brokers: ['redis', 'memory'], relays: [2] } }

export const pipelineVariants = {
  short: 'one round with few messages, to see that it works',
  shortest: 'the same on two brokers, with two relays',
} as const

/** Of one round. */
interface Measured {
  readonly per_s: number
  readonly latency_p50_ms: number
  readonly latency_p99_ms: number
  readonly cpu_us: number
  readonly wal_bytes: number
}

const measures = ['per_s', 'latency_p50_ms', 'latency_p99_ms', 'cpu_us', 'wal_bytes'] as const satisfies (keyof Measured)[]

/**
 * The whole way of an order: client, broker, first service with inbox and outbox, relay, broker, second service with inbox; both services on PostgreSQL. The
 * brokers and the numbers of relays take turns, round by round, each time with new processes and tables.
 *
 * `per_s`: orders per second when all are published at once, until the last is committed by the second service. `cpu_us`: microseconds of processor time per order of
 * all those processes meanwhile, the client included, the servers not. `wal_bytes`: what PostgreSQL has written to its log per order. `latency`: from the publish of an
 * order to its commit by the second service, at a steady rate.
 */
export async function pipeline(variant: string | undefined): Promise<Record<string, unknown>> {
  const size = sizes[variant ?? ''] ?? full
  const configurations = size.brokers.flatMap((broker) => size.relays.map((relays) => ({ broker, relays, rounds: [] as Measured[] })))
  for (let round = 1; round <= size.rounds; round += 1) {
    for (const { broker, relays, rounds } of configurations) {
      const measured = await measure(broker, relays, size)
      rounds.push(measured)
      const line = measures.map((name) => `${name} ${measured[name].toFixed(1)}`)
      process.stderr.write(`round ${round}/${size.rounds}: ${prefixOf(broker, relays)} ${line.join(', ')}\n`)
    }
  }
  const { rounds, count, perSecond, seconds } = size
  const figures = configurations.map(({ broker, relays, rounds: measured }) =>
    measures.map((name) =>
      spread(
        `${prefixOf(broker, relays)}_${name}`,
        measured.map((one) => one[name]),
      ),
    ),
  )
  return Object.assign({ rounds, messages: count, load_per_s: perSecond, load_seconds: seconds }, ...figures.flat())
}

/** One row per broker and number of relays. */
export function pipelineRows(figures: Readonly<Record<string, unknown>>): Record<string, Record<string, unknown>> {
  const rows = brokerNames.flatMap((broker) =>
    full.relays.map((relays) => {
      const cells = measures.flatMap((name) => {
        const figure = `${prefixOf(broker, relays)}_${name}`
        return figures[figure] === undefined
          ? []
          : [[name, `${figures[figure]} (${figures[`${figure}_min`]} to ${figures[`${figure}_max`]})`] as const]
      })
      return [prefixOf(broker, relays), Object.fromEntries(cells)] as const
    }),
  )
  return Object.fromEntries(rows.filter(([, cells]) => Object.keys(cells).length > 0))
}

function prefixOf(broker: BrokerName, relays: number): string {
  return `${broker}_${relays}_relay${relays === 1 ? '' : 's'}`
}

let opened = 0

async function measure(broker: BrokerName, relays: number, { warmUp, count, perSecond, seconds }: Size): Promise<Measured> {
  opened += 1
  const prefix = `bench-pipeline-${process.pid}-${opened}`
  await using tables = await createTables(prefix)
  await using _topics = await brokerKinds[broker].declare(prefix)
  await using processes = await Processes.start(broker, relays, prefix)
  await carry(processes, warmUp)
  await allRelaysOwn(tables, relays)
  const [cpu, wal] = [await processes.cpu(), await tables.walPosition()]
  const { startedAt, endedAt } = await carry(processes, count)
  const usedCpu = (await processes.cpu()) - cpu
  const written = (await tables.walPosition()) - wal
  const { latencies } = await carry(processes, perSecond * seconds, perSecond)
  await processes.stop()
  return {
    per_s: (count * 1000) / (endedAt - startedAt),
    latency_p50_ms: percentile(latencies, 0.5),
    latency_p99_ms: percentile(latencies, 0.99),
    cpu_us: usedCpu / count,
    wal_bytes: written / count,
  }
}

interface Carried {
  readonly startedAt: number
  readonly endedAt: number
  readonly latencies: readonly number[]
}

/** Publishes orders and waits until the second service has committed all of them. */
async function carry(processes: Processes, count: number, perSecond?: number): Promise<Carried> {
  const { at: startedAt = Number.NaN } = await processes.ask('client', { ask: 'publish', count, perSecond })
  const { at: endedAt = Number.NaN, latencies = [] } = await processes.ask('shipping', { ask: 'committed', count })
  if (latencies.length !== count) throw new Error(`Expected ${count} committed orders, got ${latencies.length}.`)
  return { startedAt, endedAt, latencies }
}

/** Relays that start one after the other hand partitions over. */
async function allRelaysOwn(tables: Tables, relays: number): Promise<void> {
  const end = performance.now() + 30_000
  while ((await tables.owners(Math.floor(partitions / relays))) < relays) {
    if (performance.now() > end) throw new Error(`${relays} relays did not share the partitions within 30 s.`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
