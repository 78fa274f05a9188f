import { setTimeout } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { isProof } from '../../../../../scripts/test-depth.mjs'
import { openPg } from '../../support/world.ts'
import { openLogServer } from '../support/log-server.ts'
import { append, drain, logged, openSession } from '../support/log-store.ts'
import { failed, idsOf, keyed, lease, published, record } from '../support/ordered-store.ts'

describe('a transaction that is running while the log is read', () => {
  it('loses no record, although its number is higher than any that the snapshot of the next read knows', async () => {
    await using world = await openLogServer()
    const relay = logged(world.database)
    await append(world, keyed('k', 'k1'))
    await relay.settle((await relay.claim({ limit: 10, lease })).map(failed))
    await relay.claim({ limit: 10, lease })
    await append(world, keyed('k', 'k2'))
    // A read that moves a record waits when it writes that down: it has its transaction id, and has not ended.
    await world.pool.query(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN new; END';
CREATE TRIGGER wait BEFORE INSERT ON ackord_cursors_0 FOR EACH ROW WHEN (new.kind = 'r' AND new.done <> '{}') EXECUTE FUNCTION wait()`)
    await using blocking = await openSession(world)
    await blocking.client.query('SELECT pg_advisory_lock(1)')
    const reading = relay.claim({ limit: 10, lease })
    await expect.poll(() => world.query(`SELECT FROM pg_stat_activity WHERE wait_event = 'advisory'`)).toHaveLength(1)
    await using late = await openSession(world)
    await late.client.query('BEGIN')
    await logged(world.database).append(late.client, [record('late')])
    // The next read does not see the late transaction, and no transaction has ended that began after that one.
    await blocking.client.query('SELECT pg_advisory_unlock(1)')
    await reading
    await late.client.query('COMMIT')
    expect(await drain(relay)).toContain('late')
  })

  it('has its transaction id before its first seq, however it stores records', async () => {
    await using world = await openPg({ max: 12 })
    const store = logged(world.database)
    const appends = [
      [record('a')],
      [record('b1'), record('b2'), record('b3')],
      Array.from({ length: 40 }, (_, index) => record(`c${index}`)),
      [keyed('k', 'k1')],
      Array.from({ length: 40 }, (_, index) => keyed(`l${index % 3}`, `l${index}`)),
    ]
    const [sequence] = await world.query(`SELECT pg_get_serial_sequence('ackord_outbox', 'seq') AS name`)
    const insert = `INSERT INTO ackord_log (leaf, destination, id, type, partition, data, attributes)`
    const inserts = [
      `${insert} VALUES (0, 'd', 'x', 't', 1, '', '{}')`,
      `${insert} VALUES (0, 'd', 'x', 't', 1, '', '{}'), (0, 'd', 'y', 't', 1, '', '{}')`,
      `${insert} SELECT 0, 'd', n::text, 't', 1, '', '{}' FROM generate_series(1, 3) AS n ORDER BY n DESC`,
      `${insert.replace('(leaf,', '(seq, leaf,')} VALUES (DEFAULT, 0, 'd', 'x', 't', 1, '', '{}')`,
    ]
    await using blocking = await openSession(world)
    await using writer = await openSession(world)
    const { client } = writer
    const [pid] = (await client.query('SELECT pg_backend_pid() AS pid')).rows
    const ways = [...appends.map((records) => () => store.append(client, records)), ...inserts.map((sql) => () => client.query(sql))]
    for (const way of ways) {
      // Nobody can take a seq.
      await blocking.client.query(`BEGIN; ALTER SEQUENCE ${String(sequence?.['name'])} CACHE 1`)
      await client.query('BEGIN')
      const writing = way()
      const state = 'SELECT backend_xid IS NOT NULL AS has_id FROM pg_stat_activity WHERE pid = $1'
      const waits = `${state} AND wait_event_type = 'Lock' AND wait_event = 'relation'`
      await expect.poll(() => world.query(waits, [pid.pid])).toHaveLength(1)
      expect(await world.query(state, [pid.pid])).toEqual([{ has_id: true }])
      await blocking.client.query('ROLLBACK')
      await writing
      await client.query('ROLLBACK')
    }
  })

  it('loses nothing under load, while a record of a key waits in the table', { timeout: 120_000 }, async () => {
    await using world = await openLogServer()
    const store = logged(world.database)
    const relay = logged(world.database)
    await append(world, keyed('k', 'k1'))
    await relay.settle((await relay.claim({ limit: 10, lease })).map(failed))
    const until = performance.now() + (isProof ? 30_000 : 3000)
    const isOn = () => performance.now() < until
    const committed = new Set<string>()
    const seen: string[] = []
    async function write(writer: number): Promise<void> {
      for (let count = 0; isOn(); count += 1) {
        const id = `${writer}/${count}`
        const client = await world.client()
        await client.query('BEGIN')
        await store.append(client, [record(id)])
        // The load is the subject of the test: transactions that take a while, and begin at any time.
        await setTimeout(5)
        await client.query('COMMIT')
        client.release()
        committed.add(id)
        await setTimeout(Math.random() * 10)
      }
    }
    async function publish(): Promise<void> {
      while (isOn()) {
        const claimed = await relay.claim({ limit: 100, lease })
        seen.push(...idsOf(claimed).map(String))
        await relay.settle(claimed.map(published))
      }
    }
    await Promise.all([write(1), write(2), publish()])
    seen.push(...(await drain(relay)).map(String))
    await relay.leave?.()
    const left = await drain(logged(world.database))
    expect(left).toEqual([])
    expect(seen.length).toBe(committed.size)
    expect([...committed].filter((id) => !seen.includes(id))).toEqual([])
  })
})
