import type { RateGrant, RateLimiter } from '@ackord/core'
import { ResultTable, testRateLimiter } from '@ackord/testkit/suites'
import { createPool } from 'mysql2/promise'
import { afterAll, describe, expect, it } from 'vitest'
import { measureSharedRate } from '../../../testkit/test/support/rate-process.ts'
import { sqlRateLimiter } from '../../src/index.ts'
import { fromMysql2 } from '../../src/mysql/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { crashProgram } from '../support/crash-program.ts'
import { pg } from '../support/pg.ts'
import { openPg, postgresUrl } from '../support/world.ts'

const program = crashProgram(new URL('./rate-process.ts', import.meta.url))
const results = new ResultTable()

afterAll(() => console.log(results.format()))

const sleep = (duration: number) => new Promise<void>((resolve) => void setTimeout(resolve, duration))
const signal = new AbortController().signal
const perHour = { limit: 10, interval: 3_600_000, burst: 10, wanted: 4, returned: 0 }

async function take(limiter: RateLimiter, ...keys: readonly string[]): Promise<readonly RateGrant[]> {
  return await limiter.take(
    keys.map((key) => ({ key, ...perHour })),
    { signal },
  )
}

testRateLimiter(
  { describe, it },
  {
    name: 'pg',
    async open() {
      const world = await openPg()
      const pools: pg.Pool[] = []
      return {
        limiter: sqlRateLimiter(world.database),
        async another() {
          const pool = world.createPool({ max: 5 })
          pools.push(pool)
          return sqlRateLimiter(fromPg(pool, { schema: world.schema }))
        },
        elapse: sleep,
        async [Symbol.asyncDispose]() {
          for (const pool of pools) await pool.end()
          await world[Symbol.asyncDispose]()
        },
      }
    },
    results,
  },
)

describe('sqlRateLimiter()', () => {
  it('keeps the buckets of other names apart', async () => {
    await using world = await openPg()
    const limiters = ['orders', 'invoices'].map((name) => sqlRateLimiter(world.database, { name }))
    for (const limiter of limiters) expect((await take(limiter, 'a')).map(({ granted }) => granted)).toEqual([4])
    const names = await world.query("SELECT kind FROM ackord_notes WHERE kind LIKE 'rate:%' ORDER BY kind")
    expect(names.map(({ kind }) => kind)).toEqual(['rate:invoices', 'rate:orders'])
  })

  it('works at every isolation level, when processes change the same buckets', async () => {
    await using world = await openPg()
    const pool = new pg.Pool({
      connectionString: postgresUrl,
      options: `-c search_path=${world.schema} -c default_transaction_isolation=serializable`,
    })
    try {
      const limiter = sqlRateLimiter(fromPg(pool, { schema: world.schema }))
      const grants = await Promise.all(Array.from({ length: 8 }, () => take(limiter, 'a', 'b')))
      const total = grants.flat().reduce((sum, { granted }) => sum + granted, 0)
      expect(total).toBe(20)
    } finally {
      await pool.end()
    }
  })

  it('removes the rows of full buckets, and keeps the others', async () => {
    await using world = await openPg()
    const keys = async (limiter: RateLimiter, prefix: string) => {
      await take(limiter, ...Array.from({ length: 600 }, (_, index) => `${prefix}${index}`))
    }
    const count = async () => Number((await world.query("SELECT count(*)::int AS n FROM ackord_notes WHERE kind LIKE 'rate:%'"))[0]?.['n'])
    await keys(sqlRateLimiter(world.database), 'full')
    // As if they had been full for a minute.
    await world.query("UPDATE ackord_notes SET written_at = now() - interval '1 minute', value = '0 4' WHERE kind LIKE 'rate:%'")
    const limiter = sqlRateLimiter(world.database)
    await take(limiter, 'used')
    await expect.poll(count, { timeout: 10_000 }).toBe(1)
    expect((await take(limiter, 'used', 'full1')).map(({ granted }) => granted)).toEqual([4, 4])
    await world.query("UPDATE ackord_notes SET written_at = now() - interval '1 minute', value = '0 4' WHERE kind LIKE 'rate:%'")
    // A process that runs for long does it again and again.
    await keys(limiter, 'a')
    await keys(limiter, 'b')
    await expect.poll(count, { timeout: 10_000 }).toBe(1200)
  })

  it('names the table that is missing', async () => {
    await using world = await openPg({ empty: true })
    await expect(take(sqlRateLimiter(world.database), 'a')).rejects.toMatchObject({
      code: 'ACKORD_SCHEMA',
      message: expect.stringContaining('ackord_notes'),
    })
  })

  it('rejects other databases and invalid options', async () => {
    await using world = await openPg()
    const pool = createPool('mysql://127.0.0.1:1/none')
    const invalid = [
      () => sqlRateLimiter(fromMysql2(pool)),
      () => sqlRateLimiter(world.database, { name: '' }),
      () => sqlRateLimiter(world.database, { name: 'x'.repeat(201) }),
      () => sqlRateLimiter(world.database, { prefix: 'x' } as object),
    ]
    for (const create of invalid) expect(create).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION' }))
    await pool.end()
  })

  it('bounds the rate over processes, also when one is killed with permits', async () => {
    await using world = await openPg()
    const { total, excess, allowed } = await measureSharedRate(program, { RATE_SCHEMA: world.schema })
    expect(excess).toBeLessThanOrEqual(0)
    expect(total).toBeGreaterThanOrEqual(allowed * 0.6)
  })
})
