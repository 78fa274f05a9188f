import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { createSchema } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import pg from 'pg'
import type { Bounds } from './bounds.ts'
import { postgresUrl } from './load/load-plan.ts'
import type { MemoryReport } from './memory/relay.ts'

const program = fileURLToPath(new URL('./memory/relay.js', import.meta.url))

const records = 200
const megabytes = 5
/** Megabytes: of the relay's heap, and of its whole memory. */
const heap = 256
const mostMemory = 640

/**
 * Relays with little memory, each in a process of its own, on PostgreSQL. A backlog of 1 GB, in records of 5 MB, drains in both orders; and a record that no such
 * relay can read is parked after as many dead relays as it may have attempts, while those behind it are published.
 */
export async function memory(bounds: Bounds): Promise<Record<string, unknown>> {
  const figures: Record<string, unknown> = {}
  for (const order of ['none', 'perKey'] as const) {
    await using tables = await openTables(order)
    await tables.add(records, megabytes)
    const startedAt = performance.now()
    const report = await runRelay({ schema: tables.schema, order, heap })
    bounds.atLeast(`memory: large records published (${order})`, report?.published ?? 0, records)
    bounds.atMost(`memory: megabytes of the relay (${order})`, report?.rss ?? Number.POSITIVE_INFINITY, mostMemory)
    figures[order] = { seconds: Math.round((performance.now() - startedAt) / 100) / 10, ...report }
  }
  for (const order of ['none', 'perKey'] as const) {
    await using tables = await openTables(order)
    await tables.add(1, 100)
    await tables.add(20, 0.1)
    let deaths = 0
    let report: MemoryReport | undefined
    while (report === undefined && deaths < 10) {
      report = await runRelay({ schema: tables.schema, order, heap: 64, attempts: 3 })
      if (report === undefined) deaths += 1
    }
    const { parked, left } = await tables.counts()
    bounds.atMost(`memory: relays that a record ended (${order})`, deaths, 4)
    bounds.atLeast(`memory: parked (${order})`, parked, 1)
    bounds.atMost(`memory: records left (${order})`, left, 0)
    figures[`${order}, a record that ends its relay`] = { deaths, parked, left }
  }
  return figures
}

interface RelayRunOptions {
  readonly schema: string
  readonly order: string
  readonly heap: number
  readonly attempts?: number | undefined
}

/** `undefined` if the process died. */
async function runRelay({ schema, order, heap: limit, attempts = 10 }: RelayRunOptions): Promise<MemoryReport | undefined> {
  const env = { ...process.env, MEMORY_SCHEMA: schema, MEMORY_ORDER: order, MEMORY_ATTEMPTS: String(attempts) }
  const child = fork(program, [], { execArgv: [`--max-old-space-size=${limit}`], env, stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
  let report: MemoryReport | undefined
  child.on('message', (message) => {
    report = message as MemoryReport // the only thing that it sends
  })
  await new Promise((resolve) => child.once('exit', resolve))
  return report
}

async function openTables(order: 'none' | 'perKey') {
  const schema = `memory_${process.pid}_${order.toLowerCase()}`
  const admin = new pg.Pool({ connectionString: postgresUrl, max: 1 })
  await admin.query(`CREATE SCHEMA ${schema}`)
  const pool = new pg.Pool({ connectionString: postgresUrl, options: `-c search_path=${schema}`, max: 1 })
  await createSchema(fromPg(pool, { order }))
  return {
    schema,
    async add(count: number, size: number) {
      const repeated = Math.round((size * 1_048_576) / 16)
      await pool.query(
        `INSERT INTO ackord_outbox (state, destination, id, type, partition, data, attributes, available_at)
         SELECT 'ready', 'events', 'e' || n, 't', n & 255, decode(repeat(md5(n::text), ${repeated}), 'hex'),
           '{"id":"e","type":"t","source":"/s","specversion":"1.0"}', clock_timestamp()
         FROM generate_series(1, ${count}) AS n`,
      )
    },
    async counts() {
      const { rows } = await pool.query(
        `SELECT count(*) FILTER (WHERE state = 'parked') AS parked, count(*) FILTER (WHERE state <> 'parked') AS left FROM ackord_outbox`,
      )
      return { parked: Number(rows[0]?.parked), left: Number(rows[0]?.left) }
    },
    async [Symbol.asyncDispose]() {
      await pool.end()
      await admin.query(`DROP SCHEMA ${schema} CASCADE`)
      await admin.end()
    },
  }
}
