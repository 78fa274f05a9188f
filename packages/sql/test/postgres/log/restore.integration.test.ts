import { randomUUID } from 'node:crypto'
import { type Logger, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { openPg, type World } from '../../support/world.ts'
import { append, drain, expireRelays, logged, logStatements, ringOf, rotate } from '../support/log-store.ts'
import { idsOf, keyed, lease, published, record } from '../support/ordered-store.ts'

/** What a dump of this database contains after it was restored on another server, whose next transaction id is so much lower or higher. */
async function restore(world: World, difference: string, identity = 'another server/1'): Promise<void> {
  const moved = (xid: string) => `(${xid}::text::numeric + ${difference})::text`
  const movedSnapshot = (column: string) =>
    `concat_ws(':', ${moved(`pg_snapshot_xmin(${column})`)}, ${moved(`pg_snapshot_xmax(${column})`)},
      coalesce((SELECT string_agg(${moved('xip')}, ',') FROM pg_snapshot_xip(${column}) AS xip), ''))::pg_snapshot`
  await world.query(`UPDATE ackord_log SET xid = ${moved('xid')}::xid8`)
  await world.query(`UPDATE ackord_cursors SET snapshot = ${movedSnapshot('snapshot')} WHERE snapshot IS NOT NULL`)
  await world.query(`UPDATE ackord_cursors SET until = ${movedSnapshot('until')} WHERE until IS NOT NULL`)
  await world.query(`UPDATE ackord_notes SET value = $1 WHERE kind = 'log' AND name = 'identity'`, [identity])
  await expireRelays(world)
}

describe('a log that was restored from a dump', () => {
  it.each([
    ['in the future', '1000000000'],
    // Not below the first transaction id of a server.
    ['in the past', `3 - (SELECT min(pg_snapshot_xmin(snapshot)::text::numeric) FROM ackord_cursors)`],
  ])('loses nothing and repeats nothing that was published, with transaction ids %s', async (_, difference) => {
    await using world = await openPg()
    await append(world, record('a1'), keyed('k', 'k1'), record('a2'), keyed('k', 'k2'), record('a3'))
    const before = logged(world.database)
    const claimed = await before.claim({ limit: 100, lease })
    expect(idsOf(claimed)).toEqual(['a1', 'k1', 'a2', 'k2', 'a3'])
    const done = claimed.filter(({ message }) => message.id === 'k1' || message.id === 'a3')
    await before.settle(done.map(published))
    await append(world, record('a4'), keyed('k', 'k3'))
    const [row] = await world.query(`SELECT (${difference})::text AS difference`)
    await restore(world, String(row?.['difference']))
    await append(world, record('b1'), keyed('k', 'k4'))
    const warnings: string[] = []
    const logger: Logger = { ...silentLogger, warn: (_fields: object, message?: string) => void warnings.push(String(message)) }
    const store = logged(world.database, { logger })
    const after = await drain(store)
    expect(after.toSorted()).toEqual(['a1', 'a2', 'a4', 'b1', 'k2', 'k3', 'k4'])
    expect(after.filter((id) => id?.startsWith('k'))).toEqual(['k2', 'k3', 'k4'])
    expect(warnings).toEqual(['The log of the outbox was restored from a dump. Its unpublished records were moved to the outbox table.'])
    // From here on it is a log like any other.
    await append(world, record('c1'), keyed('k', 'k5'))
    expect((await drain(store)).toSorted()).toEqual(['c1', 'k5'])
    await rotate(world)
    await rotate(world)
    expect(await ringOf(world)).toEqual({ written: 1, records: [0, 0, 0, 0] })
    await expireRelays(world)
    expect(await drain(logged(world.database))).toEqual([])
  })

  it('repeats at most what was read by the last statement before the dump', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('a1'), record('a2'))
    expect(await drain(store)).toEqual(['a1', 'a2'])
    await append(world, record('b1'))
    expect(idsOf(await store.claim({ limit: 10, lease }))).toEqual(['b1'])
    await append(world, record('c1'))
    await restore(world, '1000000000')
    const ids = await drain(logged(world.database))
    expect(ids).toContain('b1')
    expect(ids).toContain('c1')
    expect(ids).not.toContain('a1')
  })

  it('is recognised by transaction ids in the future, if the identity of the server is the same or unknown', async () => {
    await using world = await openPg()
    await append(world, record('a1'))
    expect(await drain(logged(world.database))).toEqual(['a1'])
    await append(world, record('a2'))
    const [row] = await world.query(`SELECT concat('/', oid) AS identity FROM pg_database WHERE datname = current_database()`)
    await restore(world, '1000000000', String(row?.['identity']))
    await append(world, record('b1'))
    const store = logged(world.database)
    expect((await drain(store)).toSorted()).toEqual(['a2', 'b1'])
    await append(world, record('c1'))
    expect(await drain(store)).toEqual(['c1'])
  })

  it('loses nothing on a copy whose sequence was not advanced, and whose new records have the numbers of old ones', async () => {
    await using world = await openPg({ fresh: true })
    const before = logged(world.database)
    for (const id of ['a1', 'a2', 'a3']) await append(world, record(id), keyed('k', `k-${id}`))
    expect(await drain(before)).toHaveLength(6)
    await append(world, record('open'), keyed('k', 'k-open'))
    await restore(world, '1000000000')
    await world.query(`SELECT setval(pg_get_serial_sequence('ackord_outbox', 'seq'), 1, false)`)
    await append(world, record('n1'), keyed('k', 'k-n1'))
    await append(world, record('n2'), keyed('k', 'k-n2'))
    const numbers = await world.query('SELECT seq FROM ackord_log GROUP BY seq HAVING count(*) > 1')
    expect(numbers.length).toBeGreaterThan(0)
    const after = logged(world.database)
    const seen = await drain(after)
    expect(seen).toEqual(expect.arrayContaining(['open', 'n1', 'n2']))
    // What was published before may be published again, but only what has the number of a new record.
    expect(seen.length).toBeLessThanOrEqual(6 + numbers.length)
    expect(seen.filter((id) => id === 'k-open' || id?.startsWith('k-n'))).toEqual(['k-open', 'k-n1', 'k-n2'])
    await append(world, record('c1'))
    expect(await drain(after)).toEqual(['c1'])
    const [row] = await world.query(
      `SELECT nextval(pg_get_serial_sequence('ackord_outbox', 'seq')) > (SELECT max(generation) FROM ackord_cursors) AS higher`,
    )
    expect(row).toEqual({ higher: true })
  })

  it('loses nothing if the sequence is set back while a relay runs', async () => {
    await using world = await openPg({ fresh: true })
    const relay = logged(world.database)
    for (const id of ['a1', 'a2', 'a3']) await append(world, record(id))
    expect(await drain(relay)).toHaveLength(3)
    await world.query(`SELECT setval(pg_get_serial_sequence('ackord_outbox', 'seq'), 1, false)`)
    await append(world, record('n1'), keyed('k', 'k1'), keyed('k', 'k2'))
    expect(await drain(relay)).toEqual([])
    await expireRelays(world)
    const seen = await drain(relay)
    expect(seen.toSorted()).toEqual(expect.arrayContaining(['k1', 'k2', 'n1']))
    await append(world, record('c1'))
    expect(await drain(relay)).toEqual(['c1'])
  })

  it('is moved once, when several relays start', async () => {
    await using world = await openPg()
    await append(world, record('a1'), record('a2'), record('a3'))
    expect(await drain(logged(world.database))).toEqual(['a1', 'a2', 'a3'])
    await append(world, record('b1'), record('b2'), keyed('k', 'k1'))
    await restore(world, '1000000000')
    // None of them fails, for example by a deadlock.
    const opened = await Promise.all([1, 2, 3, 4].map(() => logStatements(world).open(randomUUID())))
    expect(opened.filter(({ restored }) => restored)).toHaveLength(1)
    const store = logged(world.database)
    expect((await drain(store)).toSorted()).toEqual(['b1', 'b2', 'k1'])
  })
})
