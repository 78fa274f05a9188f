import { silentLogger } from '@ackord/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startPgbouncer } from '../../../../../scripts/servers/index.mjs'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { type Database, transactional } from '../../../src/index.ts'
import { fromPg } from '../../../src/postgres/index.ts'
import { testConformance } from '../../support/conformance.ts'
import { openSchema, postgresUrl } from '../../support/own-schema.ts'
import { pg } from '../../support/pg.ts'
import { command, event, handle, type TestHandle } from '../../support/world.ts'
import { keyed, lease, ordered, published } from '../support/ordered-store.ts'

let pooler: Awaited<ReturnType<typeof startPgbouncer>>

beforeAll(async () => {
  // Fewer connections than clients, so that clients share them.
  pooler = await startPgbouncer({ postgresUrl, poolSize: 8 })
}, 60_000)
afterAll(() => pooler.stop())

/** Opens a separate schema through the pooler. The pooler keeps no session settings such as search_path, so all names are schema-qualified. */
async function open(options: { readonly preparedStatements: boolean } = { preparedStatements: false }) {
  const own = await openSchema({ client: 'pg through PgBouncer' })
  const { schema } = own
  const pool = new pg.Pool({ connectionString: pooler.url, max: 20 })
  const database = fromPg(pool, { schema, logger: silentLogger, ...options }) as unknown as Database<TestHandle>
  await own.createTables(database)
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

// The complete suites run on pg by default; on this client they run only in `make proof`.
testConformance('pg through PgBouncer', () => open(), depthOfOtherClients)

describe('PgBouncer in transaction mode', () => {
  it('serves relays that own partitions, and writers that wait for each other: nothing depends on a session', async () => {
    await using world = await open()
    const { database } = world
    const stores = [ordered(database), ordered(database)]
    const keys = Array.from({ length: 20 }, (_, index) => `k${index}`)
    const append = (number: number) =>
      database.write((transaction) =>
        ordered(database).append(
          transaction,
          keys.map((key) => keyed(key, `${key}-${number}`)),
        ),
      )
    await Promise.all([1, 2, 3, 4, 5].map(append))
    const seen = new Map(keys.map((key) => [key, [] as string[]]))
    while ((await world.outbox()) > 0) {
      await Promise.all(
        stores.map(async (store) => {
          const claimed = await store.claim({ limit: 30, lease })
          for (const { message, id } of claimed) seen.get(String(message.attributes.partitionkey))?.push(id)
          expect(new Set(await store.settle(claimed.map(published)))).toEqual(new Set(claimed.length === 0 ? [] : ['applied']))
        }),
      )
    }
    for (const ids of seen.values()) {
      expect(ids).toHaveLength(5)
      expect(ids).toEqual(ids.toSorted((one, other) => Number(one) - Number(other)))
    }
    for (const store of stores) await store.leave?.()
    expect(await world.query('SELECT count(*)::int AS n FROM ackord_partitions WHERE owner IS NOT NULL')).toEqual([{ n: 0 }])
    // Settings for a single statement do not outlive it.
    const { rows } = await world.pool.query('SHOW synchronous_commit')
    expect(rows).toEqual([{ synchronous_commit: 'on' }])
  })

  it('assigns its connections per transaction: forty concurrent transactions share eight connections', async () => {
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

  it('loses nothing with prepared statements that PgBouncer does not track: a failure is rolled back', async () => {
    await using world = await open({ preparedStatements: true })
    const { database } = world
    const process = transactional(database, { inbox: { consumer: 'c' }, outbox: { destination: 'd' } })
    const results = await Promise.allSettled(
      Array.from({ length: 60 }, (_, index) => handle(process, async () => [event(`e${index}`)], command(String(index)).message)),
    )
    const applied = results.filter(({ status }) => status === 'fulfilled').length
    // The first of each connection of the server succeeds.
    expect(applied).toBeGreaterThan(0)
    expect([await world.inbox(), await world.outbox()]).toEqual([applied, applied])
  })
})
