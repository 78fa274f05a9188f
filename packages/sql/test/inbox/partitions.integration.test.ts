import { compose, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import {
  cleanInbox,
  createSchema,
  inboxMiddleware,
  printSchema,
  sqlInbox,
  transactional,
  transactionMiddleware,
  validateSchema,
} from '../../src/index.ts'
import { cleanInboxSql } from '../../src/postgres/inbox.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { nodeKind } from '../sqlite/support/sqlite-world.ts'
import { command, failureOf, handle, openPg, openPglite, type World } from '../support/world.ts'
import { addPartitions, age, cleanLater, generations, switchPartitions, window } from './support/partitions.ts'

const opens: readonly { readonly name: string; readonly open: () => Promise<World> }[] = [
  { name: 'pg', open: () => openPg({ fresh: true }) },
  { name: 'PGlite', open: () => openPglite({ empty: true }) },
]

/** Delivers messages, and resolves to the ids that were handled. */
async function deliver({ database }: World, ids: readonly string[]): Promise<string[]> {
  const handled: string[] = []
  const once = transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } })
  for (const id of ids) {
    await handle(
      once,
      async (message) => {
        handled.push(String(message.id))
        return []
      },
      command(id).message,
    )
  }
  return handled
}

const numbered = (from: number, count: number) => Array.from({ length: count }, (_, n) => `m${from + n}`)

describe.each(opens)('the inbox in partitions on $name', ({ open }) => {
  it('remembers a message for at least the window, and forgets it after at most one and a half', async () => {
    await using world = await open()
    await addPartitions(world)
    expect(await deliver(world, ['1'])).toEqual(['1'])
    const remembered: boolean[] = []
    // Each round is half a window later. Some time has passed since the first delivery, too.
    for (let round = 0; round < 4; round += 1) {
      remembered.push((await deliver(world, ['1'])).length === 0)
      await cleanLater(world)
    }
    expect(remembered).toEqual([true, true, true, false])
  })

  it('leaves no rows behind in emptied partitions, and reports how many there were', async () => {
    await using world = await open()
    await addPartitions(world)
    const sizes: number[] = []
    let emptied = 0
    for (let round = 0; round < 8; round += 1) {
      await deliver(world, numbered(round * 10, 10))
      emptied += await cleanLater(world)
      emptied += await cleanInbox(world.database, { window })
      sizes.push(await world.inbox())
    }
    expect(sizes).toEqual([10, 20, 20, 20, 20, 20, 20, 20])
    expect(emptied).toBeGreaterThan(0)
    expect(await deliver(world, ['m79', 'm60', 'm59'])).toEqual(['m59'])
  })
})

it('three windows leave no dead rows, and no space behind', async () => {
  await using world = await openPg({ fresh: true })
  await addPartitions(world)
  const insert = (round: number) =>
    world.query(
      `INSERT INTO ackord_inbox (consumer, source, id) SELECT 'orders', '/shop', '${round}.' || n FROM generate_series(1, 2000) AS n ON CONFLICT DO NOTHING`,
    )
  const bytes: number[] = []
  for (let round = 0; round < 8; round += 1) {
    await insert(round)
    // Duplicates leave nothing behind either.
    await insert(round)
    await cleanLater(world)
    await cleanInbox(world.database, { window })
    const [row] = await world.query(
      `SELECT sum(pg_total_relation_size(inhrelid))::int AS bytes FROM pg_inherits WHERE inhparent = 'ackord_inbox'::regclass`,
    )
    bytes.push(Number(row?.['bytes']))
  }
  const [, second = 0, ...later] = bytes
  for (const size of later) expect(size).toBeLessThan(second * 1.1)
  expect(await world.inbox()).toBe(4000)
  await expect.poll(() => statistics(world), { timeout: 15_000 }).toEqual({ inserted: 16_000, dead: 0, deleted: 0, updated: 0 })
})

/** The statistics of the partitions. The server adds those of a session with a delay. */
async function statistics({ query, schema }: World): Promise<unknown> {
  const [row] = await query(
    `SELECT sum(n_tup_ins)::int AS inserted, sum(n_dead_tup)::int AS dead, sum(n_tup_del)::int AS deleted, sum(n_tup_upd)::int AS updated
     FROM pg_stat_user_tables WHERE schemaname = $1 AND relname ~ '^ackord_inbox_[0-3]$'`,
    [schema],
  )
  return row
}

describe('an existing inbox', () => {
  it('becomes the first partition: its messages are remembered for the window', async () => {
    await using world = await openPg({ fresh: true })
    await deliver(world, ['1', '2'])
    await addPartitions(world)
    expect(await deliver(world, ['1', '2', '3'])).toEqual(['3'])
    for (let round = 0; round < 2; round += 1) await cleanLater(world)
    expect(await deliver(world, ['1', '3'])).toEqual(['1'])
  })

  it('gets partitions while messages are handled, and none is handled twice', async () => {
    await using world = await openPg({ fresh: true })
    const ids = numbered(0, 60)
    const handled: string[] = []
    const changed: string[] = []
    const service = async () => {
      // The connections have prepared their statements before the change.
      for (const id of ids) {
        const fresh = await deliver(world, [id])
        handled.push(...fresh)
        if (id === 'm20') changed.push(id)
      }
    }
    const change = async () => {
      while (changed.length === 0) await world.query('SELECT 1')
      await addPartitions(world)
      await cleanLater(world)
    }
    await Promise.all([service(), service(), service(), change()])
    expect(handled.toSorted()).toEqual(ids.toSorted())
    expect(await generations(world)).toEqual([2, 1])
  })

  it('waits in short tries for a transaction that uses it, and lets others through in between', async () => {
    await using world = await openPg({ fresh: true })
    const client = await world.client()
    await client.query('BEGIN')
    await client.query(`INSERT INTO ackord_inbox (consumer, source, id) VALUES ('orders', '/shop', '1')`)
    const changing = addPartitions(world)
    const isWaiting = async () =>
      (
        await world.query(
          `SELECT FROM pg_locks WHERE relation = to_regclass('ackord_inbox') AND NOT granted AND mode = 'AccessExclusiveLock'`,
        )
      ).length > 0
    while (!(await isWaiting())) {}
    // Waits behind the change, and goes on when the change gives up.
    expect(await deliver(world, ['2'])).toEqual(['2'])
    await client.query('COMMIT')
    client.release()
    await changing
    expect(await deliver(world, ['1', '2', '3'])).toEqual(['3'])
  })

  it('keeps its owner and privileges, which the partitions get too', async () => {
    await using world = await openPg({ fresh: true })
    const { schema } = world
    await world.query(`CREATE ROLE ${schema}`)
    await world.query(`GRANT USAGE ON SCHEMA ${schema} TO ${schema}`)
    await world.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ackord_inbox TO ${schema}`)
    await addPartitions(world)
    const pool = world.createPool({ max: 1 })
    await pool.query(`SET ROLE ${schema}`)
    const database = fromPg(pool)
    const once = compose(transactionMiddleware(database), inboxMiddleware(database, { consumer: 'orders' }))
    const record = (id: string) => handle(once, async () => [], command(id).message)
    for (let round = 0; round < 5; round += 1) {
      await record(`${round}`)
      await age(world, window)
      await cleanInbox(database, { window })
    }
    await switchPartitions(world)
    await record('during a switch')
    expect(await sqlInbox(database, { logger: silentLogger }).forget('during a switch', { consumer: 'orders' })).toBe(1)
    await pool.end()
  })

  it('gets one table again, with the messages of all partitions', async () => {
    await using world = await openPg({ fresh: true })
    await deliver(world, ['1'])
    await addPartitions(world)
    await deliver(world, ['2'])
    await switchPartitions(world)
    await deliver(world, ['3'])
    await createSchema(world.database, { inbox: { partitions: false } })
    expect(await deliver(world, ['1', '2', '3', '4'])).toEqual(['4'])
    const tables = await world.query(
      `SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relname ~ '^ackord_inbox_' AND relkind IN ('r', 'S')`,
      [world.schema],
    )
    expect(tables).toEqual([])
    // And back.
    await addPartitions(world)
    expect(await deliver(world, ['1', '2', '3', '4', '5'])).toEqual(['5'])
  })

  it('is not touched by the cleanup of a release that knows no partitions', async () => {
    await using world = await openPg({ fresh: true })
    await addPartitions(world)
    await deliver(world, ['1'])
    expect((await failureOf(world.query(cleanInboxSql('ackord_inbox'), [0, 1000]))).code).toBe('42703')
    expect(await world.inbox()).toBe(1)
  })
})

describe('the options', () => {
  it('printed statements create the partitions, and the schema is valid with and without the option', async () => {
    await using world = await openPg({ empty: true })
    const { database } = world
    const options = { inbox: { partitions: true } }
    const client = await world.client()
    await client.query(`BEGIN; ${printSchema(database, options)} COMMIT`)
    client.release()
    await validateSchema(database, options)
    await validateSchema(database)
    expect(await failureOf(validateSchema(database, { inbox: { partitions: false } }))).toMatchObject({
      code: 'ACKORD_SCHEMA',
      problem: 'older',
    })
    await createSchema(database, options)
    await createSchema(database)
    expect(await deliver(world, ['1', '1'])).toEqual(['1'])
  })

  it('an inbox without partitions is not valid if they are required', async () => {
    await using world = await openPg()
    expect((await failureOf(validateSchema(world.database, { inbox: { partitions: true } }))).message).toContain('has no partitions')
  })

  it('rejects what the database does not support', async () => {
    await using world = await openPg()
    await using sqlite = await nodeKind.open()
    expect(await failureOf(createSchema(sqlite.database, { inbox: { partitions: true } }))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    // @ts-expect-error: not an option.
    expect(await failureOf(createSchema(world.database, { inbox: { partitions: 'day' } }))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    const long = { names: { inbox: 'i'.repeat(60) }, inbox: { partitions: true } }
    expect(await failureOf(createSchema(world.database, long))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
  })
})
