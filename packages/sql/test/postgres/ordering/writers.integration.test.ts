import { silentLogger } from '@ackord/core'
import type { PoolClient } from 'pg'
import { describe, expect, it } from 'vitest'
import { sqlOutbox, transactional } from '../../../src/index.ts'
import { postgresDialect } from '../../../src/postgres/dialect.ts'
import { outboxRowOf } from '../../../src/records/outbox-row.ts'
import { command, event, handle, openPg, type World } from '../../support/world.ts'
import { keyed, ordered, record } from '../support/ordered-store.ts'

type PgWorld = Awaited<ReturnType<typeof openPg>>

/** Begins a transaction on a separate client. */
async function begin(world: PgWorld): Promise<PoolClient & AsyncDisposable> {
  const client = await world.client()
  await client.query('BEGIN')
  return Object.assign(client, {
    async [Symbol.asyncDispose]() {
      await client.query('ROLLBACK')
      client.release()
    },
  })
}

/** Resolves when at least this many connections wait for an advisory lock. */
async function untilWaiting(world: World, count: number): Promise<void> {
  const waiting = `SELECT count(*)::int AS n FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND NOT l.granted AND a.query LIKE '%${world.schema}%'`
  await expect.poll(async () => Number((await world.query(waiting))[0]?.['n']), { timeout: 5000 }).toBeGreaterThanOrEqual(count)
}

describe('writers of a key', () => {
  it('wait for each other until the end of the transaction, so that the order of the rows is that of the commits', async () => {
    await using world = await openPg({ max: 20 })
    const store = ordered(world.database)
    await world.query('CREATE TABLE commits (key text, position int, id text)')
    const keys = ['a', 'b', 'c']
    const write = async (worker: number, turn: number) => {
      const key = keys[(worker + turn) % 3] ?? ''
      const id = `${worker}-${turn}`
      await using client = await begin(world)
      await store.append(client as never, [keyed(key, id)])
      // At this point the transaction holds the lock of its key, and sees the rows of earlier writers.
      await client.query('INSERT INTO commits SELECT $1, count(*), $2 FROM commits WHERE key = $1', [key, id])
      await client.query(turn % 5 === 4 ? 'ROLLBACK' : 'COMMIT')
    }
    await Promise.all(
      Array.from({ length: 8 }, async (_, worker) => {
        for (let turn = 0; turn < 15; turn += 1) await write(worker, turn)
      }),
    )
    for (const key of keys) {
      const rows = await world.query('SELECT id FROM ackord_outbox WHERE ordering_key = $1 ORDER BY seq', [key])
      const commits = await world.query('SELECT id, position FROM commits WHERE key = $1 ORDER BY position', [key])
      expect(rows.map(({ id }) => id)).toEqual(commits.map(({ id }) => id))
      expect(commits.map(({ position }) => position)).toEqual(commits.map((_, index) => index))
      expect(rows.length).toBeGreaterThan(20)
    }
  })

  it('never deadlock because of a single call, with any order of keys and any number of records', async () => {
    await using world = await openPg({ max: 10 })
    const store = ordered(world.database)
    const keys = Array.from({ length: 40 }, (_, index) => `k${index}`)
    // Without retries, the victim of a deadlock rejects.
    const append = (order: readonly string[], id: string) =>
      world.database.write(
        (transaction) =>
          store.append(
            transaction,
            order.map((key) => keyed(key, `${id}-${key}`)),
          ),
        { retries: 0 },
      )
    for (let round = 0; round < 15; round += 1) {
      await Promise.all([
        append(keys, `a${round}`),
        append(keys.toReversed(), `b${round}`),
        append(keys.slice(0, 3), `c${round}`),
        append(['k2', 'k1', 'k0'], `d${round}`),
      ])
    }
    expect(await world.outbox()).toBe(15 * 86)
  })

  it('do not wait for writers of another key or destination, nor without a key', async () => {
    await using world = await openPg()
    const store = ordered(world.database)
    await using holder = await begin(world)
    await store.append(holder as never, [keyed('a', 'a1')])
    await using other = await begin(world)
    await other.query(`SET LOCAL lock_timeout = '2s'`)
    await store.append(other as never, [keyed('b', 'b1'), record('free'), { ...keyed('a', 'elsewhere'), destination: 'others' }])
    // Advisory locks of the user do not collide with those of the library.
    await other.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0)), pg_advisory_xact_lock(1), pg_advisory_xact_lock(1, 1)', ['a'])
    await other.query('COMMIT')
    expect(await world.outbox()).toBe(3)
  })

  it('wait for ackord_append() too, and it waits for them', async () => {
    await using world = await openPg()
    const store = ordered(world.database)
    await using first = await begin(world)
    await first.query(`SELECT ${world.schema}.ackord_append('events', 't', '/s', '', ordering_key => 'a', id => 'first')`)
    const second = world.database.write((transaction) => store.append(transaction, [keyed('a', 'second')]))
    await untilWaiting(world, 1)
    const third = world.query(
      `SELECT '${world.schema}', ${world.schema}.ackord_append('events', 't', '/s', '', ordering_key => 'a', id => 'third')`,
    )
    await untilWaiting(world, 2)
    await first.query('COMMIT')
    await Promise.all([second, third])
    const rows = await world.query('SELECT id FROM ackord_outbox ORDER BY seq')
    expect(rows.map(({ id }) => id)).toEqual(['first', 'second', 'third'])
  })

  it('lock without an extra round trip, and not at all without order or without a key', async () => {
    const append = postgresDialect.appender({ outbox: '"ackord_outbox"' })
    const rows = (count: number, order: 'none' | 'perKey') =>
      Array.from({ length: count }, (_, index) =>
        outboxRowOf(index % 2 === 0 ? keyed(`k${index}`, `e${index}`) : record(`e${index}`), order),
      )
    const locking = (count: number, order: 'none' | 'perKey', supportsPipelining: boolean) =>
      append(rows(count, order), { supportsPipelining }).map(({ sql }) => sql.includes('pg_advisory_xact_lock'))
    expect(locking(3, 'perKey', false)).toEqual([true])
    expect(locking(100, 'perKey', false)).toEqual([true])
    // Several pipelined statements: the first one takes all locks.
    expect(locking(40, 'perKey', true)).toEqual([true, false, false])
    expect(locking(3, 'none', false)).toEqual([false])
    const [free] = append([outboxRowOf(record('e'), 'perKey')], { supportsPipelining: true })
    expect(free?.sql).not.toContain('pg_advisory_xact_lock')
  })

  it('include the middleware, also in a group, if the order is an option of the database', async () => {
    await using world = await openPg()
    await using holder = await begin(world)
    await ordered(world.database).append(holder as never, [keyed('a', 'first')])
    const middleware = transactional(world.database, {
      inbox: { consumer: 'c' },
      outbox: { destination: 'events', order: 'perKey' },
      groupCommit: { size: 2, groups: 1 },
    })
    const handled = ['1', '2'].map((id) => handle(middleware, async () => [event(`e${id}`, { partitionkey: 'a' })], command(id).message))
    await untilWaiting(world, 1)
    await holder.query('COMMIT')
    await Promise.all(handled)
    const rows = await world.query('SELECT id FROM ackord_outbox ORDER BY seq')
    expect(rows.map(({ id }) => id)[0]).toBe('first')
    expect(rows).toHaveLength(3)
    expect(sqlOutbox(world.database, { logger: silentLogger }).capabilities.order).toBe('none')
  })
})
