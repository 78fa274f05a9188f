import { Router, type Source, silentLogger } from '@ackord/core'
import { type TransactionalOptions, transactional } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import type pg from 'pg'
import { orderHandler, source } from './orders.ts'

export interface SharedRowsOptions {
  readonly concurrency: number
  readonly groupCommit: TransactionalOptions['groupCommit']
  /** Milliseconds. */
  readonly alone: number
  readonly grouped: number
}

const rows = 10

/** Messages for as long as this. */
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

/** Messages per second where each handler updates one of a few rows, so that transactions wait for each other. */
async function rate(
  pool: pg.Pool,
  duration: number,
  concurrency: number,
  groupCommit: TransactionalOptions['groupCommit'],
): Promise<number> {
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
        // In no order, as customers come.
        return database.executor().query('UPDATE stock SET total = total + 1 WHERE id = $1', [(handled * 7) % rows])
      }),
    )
  const start = performance.now()
  await router.run(sourceFor(duration))
  return router.health().handled / ((performance.now() - start) / 1000)
}

/** Group commit against single messages on rows that they share: the worst case for groups, which must notice and adapt. */
export async function sharedRows(
  pool: pg.Pool,
  { concurrency, groupCommit, alone, grouped }: SharedRowsOptions,
): Promise<{ readonly alone: number; readonly grouped: number }> {
  await pool.query('CREATE TABLE stock (id integer PRIMARY KEY, total integer NOT NULL)')
  await pool.query(`INSERT INTO stock SELECT n, 0 FROM generate_series(0, ${rows - 1}) AS n`)
  return { alone: await rate(pool, alone, concurrency, undefined), grouped: await rate(pool, grouped, concurrency, groupCommit) }
}
