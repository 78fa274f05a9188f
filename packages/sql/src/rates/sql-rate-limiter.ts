import { hash } from 'node:crypto'
import { InvalidOptionError, type RateGrant, type RateLimiter, type RateRequest } from '@ackord/core'
import { checkRateRequests, rejectUnknownOptions } from '@ackord/core/internal'
import { explainMissing } from '../contract/dialect.ts'
import type { Driver } from '../contract/driver.ts'
import type { Bucket, RateStatements } from '../contract/store-dialect.ts'
import type { TableOptions } from '../contract/tables.ts'
import type { Row } from '../records/row.ts'
import { problemOf } from '../records/text-limits.ts'
import { type Database, portOf } from '../transaction/database.ts'

export interface SqlRateLimiterOptions extends Pick<TableOptions, 'schema' | 'names'> {
  /** Routers with the same name share the rates of their tenants. Default: 'default'. */
  readonly name?: string | undefined
}

/** The maximum number of attempts of a call: at a strict isolation level, the database reports a bucket that another process has changed as a conflict. */
const maxAttempts = 10
/** In bytes: short enough for an index entry. */
const maxNameBytes = 200
/** The number of requests after which rows of full buckets are removed; twice as many at most, so that they never become more and more. */
const cleanEvery = 1000

/**
 * Counts the permits of rates in PostgreSQL, for all processes that use the same database and name. PostgreSQL only: other databases cannot change several buckets and report them in
 * one statement.
 *
 *     const limiter = sqlRateLimiter(database, { name: 'orders' })
 *     new Router({ fairness: { by: ({ subject }) => subject, rate: 100, limiter } })
 *
 * One statement serves several tenants, outside of the transactions of messages. Its commit does not wait for the disk: a crash of the server may forget the latest permits. A tenant
 * whose bucket is not full has a row among the notes (`ackord_notes`), which `createSchema()` creates; rows of full buckets are removed now and then. Rates use the clock of the
 * database.
 */
export function sqlRateLimiter<Handle>(database: Database<Handle>, options: SqlRateLimiterOptions = {}): RateLimiter {
  const { name = 'default', schema, names, ...unknown } = options
  rejectUnknownOptions('sqlRateLimiter()', unknown)
  const problem = name === '' ? 'must not be empty' : problemOf(name, maxNameBytes)
  if (problem !== undefined) throw new InvalidOptionError('name', `${problem}.`)
  const { dialect, driver, tables } = portOf(database)
  if (dialect.store.rates === undefined) {
    throw new InvalidOptionError(
      'sqlRateLimiter(database)',
      'needs PostgreSQL. With another database, share rates in Redis: redisRateLimiter(redis).',
    )
  }
  const table = tables({ schema, names }).notes
  const kind = `rate:${name}`
  // The statements use the handle of the driver, whatever its type.
  const statements = dialect.store.rates(driver as Driver<unknown>, table)
  // The first call removes the rows that an earlier process has left.
  let untilCleaning = 0

  async function take(buckets: readonly Bucket[]): ReturnType<RateStatements['take']> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await statements.take(kind, buckets)
      } catch (error) {
        if (attempt < maxAttempts && dialect.isConflict(error)) continue
        throw explainMissing(dialect, error, table)
      }
    }
  }

  return {
    async take(requests, { signal }) {
      checkRateRequests(requests)
      signal.throwIfAborted()
      if (requests.length === 0) return []
      const buckets = requests.map(bucketOf)
      // Sorted, so that no two callers deadlock.
      const rows = await take([...buckets].sort((one, other) => (one.name < other.name ? -1 : 1)))
      untilCleaning -= buckets.length
      if (untilCleaning < 0) {
        untilCleaning = cleanEvery
        // Beside the work. If it fails, a later call does it.
        void statements.removeFull(kind, 2 * cleanEvery).catch(() => {})
      }
      const found = new Map(rows.map((row) => [row['name'], row]))
      return buckets.map((bucket) => grantOf(bucket, found.get(bucket.name)))
    },
  }
}

/** Under a hash, because others may choose the names of tenants. */
function bucketOf({ key, limit, interval, burst, wanted, returned }: RateRequest): Bucket {
  return { name: hash('sha256', key, 'base64url'), cost: interval / limit, burst, wanted, returned }
}

function grantOf({ wanted, cost, burst }: Bucket, row: Row | undefined): RateGrant {
  const granted = Number(row?.['granted'])
  const wait = Math.ceil(Number(row?.['debt']) + cost - burst * cost)
  return { granted, retryAfter: granted === wanted ? 0 : Math.max(1, wait) }
}
