import { silentLogger } from '@ackord/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startPgbouncer } from '../../../../scripts/servers/index.mjs'
import { createSchema, type Database, transactional } from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { testConformance } from '../support/conformance.ts'
import { openSchema, postgresUrl } from '../support/own-schema.ts'
import { pg } from '../support/pg.ts'
import { command, event, handle, type TestHandle } from '../support/world.ts'

let pooler: Awaited<ReturnType<typeof startPgbouncer>>

beforeAll(async () => {
  // Fewer connections than clients: they are passed around.
  pooler = await startPgbouncer({ postgresUrl, poolSize: 8 })
}, 60_000)
afterAll(() => pooler.stop())

/** A schema of its own, reached through the pooler. It keeps no settings of a session, so that everything is found by its schema. */
async function open(options: { readonly preparedStatements: boolean } = { preparedStatements: false }) {
  const own = await openSchema()
  const { schema } = own
  const pool = new pg.Pool({ connectionString: pooler.url, max: 20 })
  const database = fromPg(pool, { schema, logger: silentLogger, ...options }) as unknown as Database<TestHandle>
  await createSchema(database)
  return {
    ...own,
    pool,
    database,
    run: async (handle: TestHandle, text: string, parameters: unknown[]) => {
      const qualified = text.replace(/\borders\b/, `${schema}.orders`)
      return (await handle.query(qualified, parameters)).rows
    },
    async [Symbol.asyncDispose]() {
      await pool.end()
      await own[Symbol.asyncDispose]()
    },
  }
}

testConformance('pg through PgBouncer', () => open())

describe('PgBouncer in transaction mode', () => {
  it('lends its connections by transaction: forty at once share eight', async () => {
    await using world = await open()
    const { database } = world
    const backends = new Set<unknown>()
    await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        handle(
          transactional(database, { inbox: { consumer: 'c' }, outbox: { destination: 'd' } }),
          async () => {
            backends.add((await database.executor().query('SELECT pg_backend_pid() AS pid')).rows[0]?.['pid'])
            return [event(`e${index}`)]
          },
          command(String(index)).message,
        ),
      ),
    )
    expect(backends.size).toBeLessThanOrEqual(8)
    expect([await world.inbox(), await world.outbox()]).toEqual([40, 40])
  })

  it('loses nothing with prepared statements that it does not follow: what fails is rolled back', async () => {
    await using world = await open({ preparedStatements: true })
    const { database } = world
    const process = transactional(database, { inbox: { consumer: 'c' }, outbox: { destination: 'd' } })
    const results = await Promise.allSettled(
      Array.from({ length: 60 }, (_, index) => handle(process, async () => [event(`e${index}`)], command(String(index)).message)),
    )
    const applied = results.filter(({ status }) => status === 'fulfilled').length
    expect([await world.inbox(), await world.outbox()]).toEqual([applied, applied])
  })
})
