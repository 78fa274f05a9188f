import { createRequire } from 'node:module'
import { silentLogger } from '@ackord/core'
// @ts-expect-error The package has no types.
import Cursor from 'pg-cursor'
import { describe, expect, it } from 'vitest'
import { fromPg } from '../../../src/postgres/index.ts'
import { openSchema, postgresUrl, startOptions } from '../../support/own-schema.ts'
import { pg } from '../../support/pg.ts'
import { failureOf } from '../../support/world.ts'

// The oldest supported minor version, which does not recover from a parameter that it cannot serialise.
const oldest = createRequire(import.meta.url)('pg-8.11') as typeof pg

const versions = [
  { name: 'pg 8.11', client: oldest },
  { name: 'the newest pg', client: pg },
]

const failure = new Error('failed')
const settings = { logger: silentLogger, retries: 0 }

async function openWorld(client: typeof pg, options: { readonly query_timeout?: number } = {}) {
  const own = await openSchema({ client: 'pg' })
  const { schema } = own
  const pool = new client.Pool({ connectionString: postgresUrl, max: 1, options: startOptions(schema), ...options })
  const database = fromPg(pool, { schema, logger: silentLogger })
  await own.createTables(database)
  return {
    ...own,
    database,
    ids: async () => (await own.query('SELECT id FROM orders ORDER BY id')).map(({ id }) => id),
    async [Symbol.asyncDispose]() {
      await pool.end()
      await own[Symbol.asyncDispose]()
    },
  }
}

type World = Awaited<ReturnType<typeof openWorld>>

/** Expects the next transaction to succeed. The pool has one connection, so it uses the same one or its replacement. */
async function expectUsable({ database, ids }: World, expected: readonly string[] = ['next']): Promise<void> {
  await database.write((transaction) => transaction.query("INSERT INTO orders (id) VALUES ('next')"), settings)
  expect(await ids()).toEqual(expected)
}

function circular(): object {
  const value: { self?: unknown } = {}
  value.self = value
  return value
}

describe.each(versions)('a transaction on $name does not wait forever', ({ client }) => {
  it('for its rollback, when a cursor is open and the handler throws', async () => {
    await using world = await openWorld(client)
    const writing = world.database.write(async (transaction) => {
      await transaction.query("INSERT INTO orders (id) VALUES ('1')")
      const cursor = transaction.query(new Cursor('SELECT generate_series(1, 10) AS n'))
      expect(await cursor.read(2)).toEqual([{ n: 1 }, { n: 2 }])
      throw failure
    }, settings)
    expect(await failureOf(writing)).toBe(failure)
    await expectUsable(world)
  })

  it('for its rollback, when queries wait behind an open cursor', async () => {
    await using world = await openWorld(client)
    const waiting: Promise<unknown>[] = []
    const writing = world.database.write(async (transaction) => {
      const cursor = transaction.query(new Cursor('SELECT generate_series(1, 10) AS n'))
      await cursor.read(2)
      for (const id of ['1', '2']) waiting.push(transaction.query('INSERT INTO orders (id) VALUES ($1)', [id]))
      throw failure
    }, settings)
    expect(await failureOf(writing)).toBe(failure)
    expect((await Promise.allSettled(waiting)).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    await expectUsable(world)
  })

  it('for its COMMIT, when the handler leaves a cursor open: it fails with an error that says so', async () => {
    await using world = await openWorld(client)
    const writing = world.database.write(async (transaction) => {
      await transaction.query("INSERT INTO orders (id) VALUES ('1')")
      const cursor = transaction.query(new Cursor('SELECT generate_series(1, 10) AS n'))
      await cursor.read(2)
    }, settings)
    expect(await failureOf(writing)).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED', message: expect.stringContaining('cursor') })
    await expectUsable(world)
  })

  it.each(['read to its end', 'closed', 'closed without waiting'])('and commits when a cursor was %s', async (how) => {
    await using world = await openWorld(client)
    await world.database.write(async (transaction) => {
      await transaction.query("INSERT INTO orders (id) VALUES ('1')")
      const cursor = transaction.query(new Cursor('SELECT generate_series(1, 3) AS n'))
      await cursor.read(how === 'read to its end' ? 10 : 2)
      if (how === 'closed') await cursor.close()
      if (how === 'closed without waiting') void cursor.close()
    }, settings)
    await expectUsable(world, ['1', 'next'])
  })

  it.each(['the first', 'not the first'])('after a parameter that cannot be serialised, in a statement that is %s', async (place) => {
    await using world = await openWorld(client)
    const writing = world.database.write(async (transaction) => {
      if (place === 'not the first') await transaction.query("INSERT INTO orders (id) VALUES ('1')")
      await transaction.query('SELECT $1::json', [circular()])
    }, settings)
    expect(await failureOf(writing)).toBeInstanceOf(TypeError)
    await expectUsable(world)
  })

  it('after a parameter that cannot be serialised, when the handler continues', async () => {
    await using world = await openWorld(client)
    const writing = world.database.write(async (transaction) => {
      await transaction.query("INSERT INTO orders (id) VALUES ('1')")
      await transaction.query('SELECT $1::json', [circular()]).catch(() => {})
      await transaction.query("INSERT INTO orders (id) VALUES ('2')")
      throw failure
    }, settings)
    expect([failure, expect.any(TypeError)]).toContainEqual(await failureOf(writing))
    await expectUsable(world)
  })

  it('for its rollback, when the driver gave up on a statement that is still running on the server', async () => {
    await using world = await openWorld(client, { query_timeout: 200 })
    await using door = await lockedTable(world)
    const writing = world.database.write(async (transaction) => {
      await transaction.query("INSERT INTO orders (id) VALUES ('1')")
      await transaction.query('SELECT * FROM locked')
    }, settings)
    expect((await failureOf(writing)).message).toBe('Query read timeout')
    await door.release()
    await expectUsable(world)
  })
})

/** Locks a table so that no other connection can read it until it is released. */
async function lockedTable(world: World): Promise<AsyncDisposable & { release(): Promise<void> }> {
  await world.query('CREATE TABLE locked (n int)')
  const holder = new pg.Client({ connectionString: postgresUrl })
  await holder.connect()
  await holder.query(`BEGIN; LOCK TABLE ${world.schema}.locked IN ACCESS EXCLUSIVE MODE`)
  let released = false
  const release = async () => {
    if (!released) await holder.end()
    released = true
  }
  return { release, [Symbol.asyncDispose]: release }
}
