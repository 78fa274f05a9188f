import { Router, type Source, silentLogger } from '@ackord/core'
import { createSchema, type TransactionalOptions, transactional } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import pg from 'pg'
import { orderHandler, source } from './orders.ts'

export interface SharedRowsRates {
  /** Messages per second, each in a transaction of its own. */
  readonly alone: number
  /** Messages per second with group commit. */
  readonly grouped: number
}

const connections = 16
const group = { size: 50, groups: 4 }
const concurrency = group.size * group.groups
/** Milliseconds. Groups grow again from time to time and each attempt has a cost, so they run for a minute. */
const duration = { alone: 15_000, grouped: 60_000 }
const rows = 10

/** Yields messages until the time is over. `duration` is in milliseconds. */
function sourceFor(duration: number): Source {
  return {
    async *messages(options) {
      const end = performance.now() + duration
      for await (const message of source(Number.POSITIVE_INFINITY).messages(options)) {
        yield message
        if (performance.now() >= end) return
      }
    },
  }
}

/** Measures messages per second where each handler updates one of a few rows, so that transactions wait for each other. */
async function rate(pool: pg.Pool, duration: number, groupCommit: TransactionalOptions['groupCommit']): Promise<number> {
  const database = fromPg(pool)
  let handled = 0
  const router = new Router({ concurrency, logger: silentLogger })
    .use(
      transactional(database, {
        inbox: { consumer: `shared-${groupCommit === undefined ? 'alone' : 'grouped'}` },
        outbox: { destination: 'order-events' },
        transaction: { logger: silentLogger, retries: 10 },
        groupCommit,
      }),
    )
    .handle(
      orderHandler(() => {
        handled += 1
        // Rows are updated in no particular order, as orders of different customers arrive.
        return database.executor().query('UPDATE stock SET total = total + 1 WHERE id = $1', [(handled * 7) % rows])
      }),
    )
  const start = performance.now()
  await router.run(sourceFor(duration))
  return router.health().handled / ((performance.now() - start) / 1000)
}

/**
 * Compares group commit with single messages where handlers update the same few rows. This is the worst case for groups: their transactions run into each other's
 * locks, so they have to detect it and adapt. Single messages are measured before and after the groups, because the speed of the machine may change meanwhile.
 */
export async function sharedRows(url: string): Promise<SharedRowsRates> {
  const schema = `ackord_bench_shared_rows_${process.pid}`
  const pool = new pg.Pool({ connectionString: url, max: connections, options: `-c search_path=${schema}` })
  try {
    await pool.query(`CREATE SCHEMA ${schema}`)
    await createSchema(fromPg(pool))
    await pool.query('CREATE TABLE stock (id integer PRIMARY KEY, total integer NOT NULL)')
    await pool.query(`INSERT INTO stock SELECT n, 0 FROM generate_series(0, ${rows - 1}) AS n`)
    const before = await rate(pool, duration.alone, undefined)
    const grouped = await rate(pool, duration.grouped, group)
    const after = await rate(pool, duration.alone, undefined)
    return { alone: (before + after) / 2, grouped }
  } finally {
    await pool.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
    await pool.end()
  }
}
