import { rootContext, silentLogger } from '@ackord/core'
import type { Pool, PoolClient } from 'pg'
import { describe, expect, it } from 'vitest'
import type { RunStatement } from '../../../src/contract/driver.ts'
import { fromPg } from '../../../src/postgres/index.ts'
import { rotateLog } from '../../../src/postgres/log/rotation.ts'
import { portOf } from '../../../src/transaction/database.ts'
import { openPg, type World } from '../../support/world.ts'
import { append, drain, expireRelays, logged, logStatements, openSession, ringOf, rotate } from '../support/log-store.ts'
import { idsOf, keyed, lease, published, record } from '../support/ordered-store.ts'

/** Begins a transaction whose snapshot is taken now, and which has not used the log. */
async function holdSnapshot(client: PoolClient): Promise<void> {
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await client.query('SELECT count(*) FROM orders')
}

/** Runs transactions, and calls `before` before each statement. */
function interrupting(world: World, before: (sql: string) => Promise<void>): Parameters<typeof rotateLog>[0] {
  const { driver } = portOf(world.database)
  return (work) => {
    const inSession = (run: RunStatement) =>
      work(async (sql, parameters) => {
        await before(sql)
        return await run(sql, parameters)
      })
    return driver.transaction([], (session) => inSession(session.run), rootContext().signal)
  }
}

async function bytesOf(world: World): Promise<{ readonly log: readonly number[]; readonly cursors: readonly number[] }> {
  const sizes = (table: string) => [0, 1, 2, 3].map((leaf) => `pg_relation_size('ackord_${table}_${leaf}')::int`).join(', ')
  const [row] = await world.query(`SELECT ARRAY[${sizes('log')}] AS log, ARRAY[${sizes('cursors')}] AS cursors`)
  return { log: row?.['log'] as number[], cursors: row?.['cursors'] as number[] }
}

describe('the leaves of the log', () => {
  it('are written in turn, and truncated once all their records are published', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('a1'), record('a2'))
    await rotate(world)
    await append(world, record('b1'))
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 2, records: [2, 1, 0, 0] })
    expect(await drain(store)).toEqual(['a1', 'a2', 'b1'])
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 2, records: [0, 0, 0, 0] })
    const { log, cursors } = await bytesOf(world)
    expect(log).toEqual([0, 0, 0, 0])
    expect(cursors.filter((bytes) => bytes > 0)).toHaveLength(1)
  })

  it('are left when they are large enough, or old enough and not empty', async () => {
    await using world = await openPg()
    await append(world, record('a1'))
    const page = 8192
    await rotate(world, {})
    await rotate(world, { maxBytes: page })
    expect(await ringOf(world)).toMatchObject({ written: 0 })
    await append(world, ...Array.from({ length: 100 }, (_, index) => record(`b${index}`)))
    await rotate(world, { maxBytes: page })
    expect(await ringOf(world)).toMatchObject({ written: 1 })
    await rotate(world, { maxAge: 0 })
    expect(await ringOf(world)).toMatchObject({ written: 1 })
    await append(world, record('c1'))
    await rotate(world, { maxAge: 60_000 })
    expect(await ringOf(world)).toMatchObject({ written: 1 })
    await world.query(`UPDATE ackord_meta SET changed_at = changed_at - interval '61 seconds' WHERE name = 'log'`)
    await rotate(world, { maxAge: 60_000 })
    expect(await ringOf(world)).toMatchObject({ written: 2, records: [101, 1, 0, 0] })
  })

  it('are not written again before they are empty', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    for (const id of ['a', 'b', 'c', 'd', 'e']) {
      await append(world, record(id))
      await rotate(world)
    }
    expect(await ringOf(world)).toEqual({ written: 3, records: [1, 1, 1, 2] })
    expect(await drain(store)).toEqual(['a', 'b', 'c', 'd', 'e'])
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 0, records: [0, 0, 0, 2] })
    await append(world, record('f'))
    expect(await drain(store)).toEqual(['f'])
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 1, records: [1, 0, 0, 0] })
  })

  it('keep their cursors when another relay empties a leaf and switches to it just before this one', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    // A relay rotates the log itself, soon after its first claim: before there is anything to empty.
    expect(await drain(store)).toEqual([])
    await append(world, record('a1'))
    await rotate(world)
    await append(world, record('b1'))
    // As after a whole turn of the ring.
    await world.query(`UPDATE ackord_meta SET version = 0 WHERE name = 'log'`)
    expect(await drain(store)).toEqual(['a1', 'b1'])
    await append(world, record('a2'))
    let interrupted = 0
    await rotateLog(
      interrupting(world, async (sql) => {
        if (!sql.startsWith('LOCK TABLE')) return
        interrupted += 1
        await logStatements(world, { maxAge: 0 }).rotate()
        expect(await ringOf(world)).toEqual({ written: 1, records: [2, 0, 0, 0] })
        await append(world, record('b2'))
        expect(await drain(store)).toEqual(['a2', 'b2'])
      }),
      portOf(world.database).tables({}),
    )
    expect(interrupted).toBe(1)
    await expireRelays(world)
    expect(await drain(logged(world.database))).toEqual([])
  })

  it.each([
    ['takes its transaction id late', ''],
    ['has its transaction id', `INSERT INTO orders VALUES ('o1')`],
  ])('get the records of a REPEATABLE READ writer that began before two rotations and %s', async (_, first) => {
    await using world = await openPg()
    const store = logged(world.database)
    await using session = await openSession(world)
    const { client: writer } = session
    await holdSnapshot(writer)
    if (first !== '') await writer.query(first)
    for (const id of ['a', 'b']) {
      await append(world, record(id))
      expect(await drain(store)).toEqual([id])
      await rotate(world)
      await rotate(world)
    }
    expect(await ringOf(world)).toEqual({ written: 2, records: [0, 0, 0, 0] })
    await store.append(writer, [keyed('k', 'late')])
    await append(world, record('c'))
    expect(await drain(store)).toEqual(['c'])
    await rotate(world)
    await writer.query('COMMIT')
    await rotate(world)
    expect(await ringOf(world)).toMatchObject({ records: [1, 0, 0, 0] })
    await append(world, keyed('k', 'later'))
    expect(await drain(store)).toEqual(['late', 'later'])
    await rotate(world)
    expect((await ringOf(world)).records.slice(0, 2)).toEqual([0, 0])
  })

  it('are not truncated while a transaction has read them, and claims go on', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('a1'))
    expect(await drain(store)).toEqual(['a1'])
    await using session = await openSession(world)
    const { client: reader } = session
    await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    const seen = async () => (await reader.query('SELECT id FROM ackord_log ORDER BY seq')).rows.map(({ id }) => id)
    expect(await seen()).toEqual(['a1'])
    for (const id of ['b', 'c', 'd', 'e']) {
      await rotate(world)
      await append(world, record(id))
      expect(await drain(store)).toEqual([id])
    }
    expect(await ringOf(world)).toEqual({ written: 3, records: [1, 1, 1, 2] })
    expect(await seen()).toEqual(['a1'])
    await reader.query('COMMIT')
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 0, records: [0, 0, 0, 2] })
  })

  it('are not truncated while a transaction has appended to them, and the others are', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await using session = await openSession(world)
    const { client: writer } = session
    await writer.query('BEGIN')
    await store.append(writer, [record('long')])
    for (const id of ['a', 'b', 'c', 'd', 'e']) {
      await append(world, record(id))
      expect(await drain(store)).toEqual([id])
      await rotate(world)
    }
    // Without the open transaction, leaf 0 would be written again.
    expect(await ringOf(world)).toEqual({ written: 3, records: [1, 0, 0, 2] })
    await writer.query('COMMIT')
    expect(await drain(store)).toEqual(['long'])
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 0, records: [0, 0, 0, 2] })
  })

  it('are truncated while a transaction that has not used the log holds an old snapshot', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('a1'))
    await using session = await openSession(world)
    const { client: holder } = session
    await holdSnapshot(holder)
    await holder.query(`INSERT INTO orders VALUES ('o1')`)
    await append(world, record('a2'))
    expect(await drain(store)).toEqual(['a1', 'a2'])
    await rotate(world)
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 1, records: [0, 0, 0, 0] })
    expect((await bytesOf(world)).log).toEqual([0, 0, 0, 0])
  })

  it('are kept for records in flight, records that wait in memory and records that were not read', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('a1'), record('a2'), record('a3'))
    const [first, ...none] = await store.claim({ limit: 1, lease })
    if (first === undefined) throw new Error('Nothing was claimed.')
    expect(none).toEqual([])
    await rotate(world)
    await append(world, record('b1'))
    await rotate(world)
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 2, records: [3, 1, 0, 0] })
    // Done beyond the cursor: a2 and a3 wait.
    expect(await store.settle([published(first)])).toEqual(['applied'])
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 2, records: [3, 1, 0, 0] })
    expect(await drain(store)).toEqual(['a2', 'a3', 'b1'])
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 2, records: [0, 0, 0, 0] })
  })

  it('are not kept for failed and parked records, which continue in the outbox table', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('ok'), record('failed'), record('parked'), keyed('k', 'k1'), keyed('k', 'k2'))
    const claimed = await store.claim({ limit: 10, lease })
    const outcomes = claimed.map((one) => {
      const { id, token } = one
      if (one.message.id === 'failed') return { id, token, result: 'failed', error: 'busy', retryAfter: lease } as const
      if (one.message.id === 'parked' || one.message.id === 'k1') return { id, token, result: 'parked', error: 'bad' } as const
      return published(one)
    })
    await store.release(claimed.slice(4))
    expect(await store.settle(outcomes.slice(0, 4))).toEqual(['applied', 'applied', 'applied', 'applied'])
    expect(await drain(store)).toEqual(['k2'])
    await rotate(world)
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 1, records: [0, 0, 0, 0] })
    const { records } = await store.list({}, { limit: 10 })
    expect(records.map(({ message, state, attempts }) => [message.id, state, attempts])).toEqual([
      ['failed', 'waiting', 1],
      ['parked', 'parked', 1],
      ['k1', 'parked', 1],
    ])
  })

  it('leave their cursors behind, so that the next relay repeats and loses nothing', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('a1'), record('a2'))
    expect(await drain(store)).toEqual(['a1', 'a2'])
    await rotate(world)
    await append(world, record('b1'), record('b2'), record('b3'))
    // Its journal entry is written to leaf 1, the cursor is still in leaf 0.
    const [inFlight] = await store.claim({ limit: 1, lease })
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 2, records: [0, 3, 0, 0] })
    await expireRelays(world)
    const next = logged(world.database)
    const claimed = await next.claim({ limit: 10, lease })
    expect(claimed.map(({ message, attempts }) => [message.id, attempts])).toEqual([
      ['b1', 2],
      ['b2', 1],
      ['b3', 1],
    ])
    expect(inFlight?.message.id).toBe('b1')
    await next.settle(claimed.map(published))
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 2, records: [0, 0, 0, 0] })
    await expireRelays(world)
    expect(await drain(logged(world.database))).toEqual([])
  })

  it.each([
    [
      'a relay',
      async (database: ReturnType<typeof fromPg<Pool>>) =>
        (await logStatements({ database }).cursors([0, 255])).map(({ cursor }) => cursor.position.floor),
      [expect.stringMatching(/^[1-9]/)],
    ],
    [
      'an operator',
      async (database: ReturnType<typeof fromPg<Pool>>) =>
        (await logged(database).list({}, { limit: 10 })).records.map(({ message }) => message.id),
      ['b1'],
    ],
  ] as const)(
    'lose no cursor to %s whose connections are REPEATABLE READ, and which reads them during a truncation',
    async (_, read, expected) => {
      await using world = await openPg()
      await append(world, record('a1'))
      expect(await drain(logged(world.database))).toEqual(['a1'])
      await rotate(world)
      await append(world, record('b1'))
      const pool = world.createPool({ max: 1 })
      await using _ended = { [Symbol.asyncDispose]: () => pool.end() }
      const database = fromPg(pool, { schema: world.schema, logger: silentLogger })
      await pool.query(`SET default_transaction_isolation = 'repeatable read'`)
      await using session = await openSession(world)
      const { client } = session
      await client.query('BEGIN; LOCK TABLE ackord_cursors_0 IN ACCESS EXCLUSIVE MODE')
      const reading = read(database)
      await expect
        .poll(() => world.query(`SELECT FROM pg_locks WHERE NOT granted AND relation = '${world.schema}.ackord_cursors_0'::regclass`))
        .toHaveLength(1)
      const columns = 'generation, kind, member, partitions, snapshot, floor, until, until_floor, seq, open, done, noted'
      await client.query(`INSERT INTO ackord_cursors (leaf, ${columns}) SELECT 1, ${columns} FROM ackord_cursors_0`)
      await client.query('TRUNCATE ackord_cursors_0; COMMIT')
      expect(await reading).toEqual(expected)
    },
  )

  it('keep the journal entry of a record in flight, although the cursor was written later and elsewhere', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('a1'))
    expect(await drain(store)).toEqual(['a1'])
    await append(world, record('a2'), record('a3'))
    const first = await store.claim({ limit: 1, lease })
    await rotate(world)
    const second = await store.claim({ limit: 1, lease })
    await store.settle(second.map(published))
    expect(idsOf([...first, ...second])).toEqual(['a2', 'a3'])
    await rotate(world)
    await expireRelays(world)
    const claimed = await logged(world.database).claim({ limit: 10, lease })
    expect(claimed.map(({ message, attempts }) => [message.id, attempts])).toEqual([['a2', 2]])
  })

  it('take what operators have moved to the outbox table with them', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('a1'), record('a2'))
    const { records } = await store.list({}, { limit: 10 })
    const [first] = records
    expect(await store.park([first?.id ?? ''], 'by hand')).toBe(1)
    const taken = async () => Number((await world.query('SELECT count(*) AS n FROM ackord_taken'))[0]?.['n'])
    expect(await taken()).toBe(1)
    expect(await drain(store)).toEqual(['a2'])
    await rotate(world)
    expect(await taken()).toBe(1)
    await rotate(world)
    expect(await taken()).toBe(0)
    expect(await store.get(first?.id ?? '')).toMatchObject({ state: 'parked' })
    expect(await drain(store)).toEqual([])
  })

  it('have no dead rows, however many records went through them', async () => {
    await using world = await openPg({ fresh: true })
    const store = logged(world.database)
    for (let round = 0; round < 8; round += 1) {
      await append(world, ...Array.from({ length: 100 }, (_, index) => keyed(`k${index % 10}`, `${round}-${index}`)))
      expect(await drain(store, 40)).toHaveLength(100)
      await rotate(world)
    }
    await rotate(world)
    const { written } = await ringOf(world)
    const { log, cursors } = await bytesOf(world)
    expect(log).toEqual([0, 0, 0, 0])
    expect(cursors.filter((_, leaf) => leaf !== written)).toEqual([0, 0, 0])
    // Each connection counts by itself until then.
    const clients = await Promise.all(Array.from({ length: world.pool.totalCount }, () => world.client()))
    for (const client of clients) {
      await client.query('SELECT pg_stat_force_next_flush()')
      client.release()
    }
    const changesOf = async (table: 'log' | 'cursors') => {
      const [row] = await world.query(`SELECT sum(pg_stat_get_tuples_inserted(oid))::int AS inserted,
        sum(pg_stat_get_tuples_updated(oid) + pg_stat_get_tuples_deleted(oid))::int AS changed, sum(pg_stat_get_dead_tuples(oid))::int AS dead
        FROM pg_class WHERE relnamespace = '${world.schema}'::regnamespace AND relname ~ '^ackord_${table}_[0-3]$'`)
      return row
    }
    expect(await changesOf('log')).toEqual({ inserted: 800, changed: 0, dead: 0 })
    expect(await changesOf('cursors')).toEqual({ inserted: expect.any(Number), changed: 0, dead: 0 })
    expect(await world.outbox()).toBe(0)
  })
})
