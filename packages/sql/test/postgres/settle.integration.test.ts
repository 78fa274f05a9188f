import { Message, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { sqlOutbox } from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { event, openPg } from '../support/world.ts'

describe.each(['none', 'perKey'] as const)('settling with order %s', (order) => {
  it.each([
    ['some adjacent rows', 1, 2],
    ['some rows that are far apart', 1, 40],
    ['rows of more destinations than a statement has parts for', 12, 3],
  ])('deletes %s and nothing between them', async (_, destinations, step) => {
    await using world = await openPg()
    const database = fromPg(world.pool, { order })
    const outbox = sqlOutbox(database, { logger: silentLogger })
    const records = Array.from({ length: 400 }, (_unused, index) => ({
      destination: `events-${index % destinations}`,
      message: new Message(new Uint8Array([1]), event(`e${index}`).attributes),
    }))
    await database.write(async (transaction) => await outbox.append(transaction, records))
    const claimed = await outbox.claim({ limit: 400, lease: 60_000 })
    expect(claimed).toHaveLength(400)
    const chosen = claimed.filter((_record, index) => index % step === 0)
    const foreign = claimed.filter((_record, index) => index % step === 1).map(({ id }) => ({ id, token: 'of somebody else' }))

    const outcomes = [...chosen, ...foreign].map(({ id, token }) => ({ id, token, result: 'published' as const }))
    const answers = await outbox.settle(outcomes)
    expect(answers).toEqual([...chosen.map(() => 'applied'), ...foreign.map(() => 'lost')])
    const left = await world.query('SELECT seq::text AS id FROM ackord_outbox ORDER BY ackord_outbox.seq')
    const gone = new Set(chosen.map(({ id }) => id))
    expect(left.map(({ id }) => id)).toEqual(claimed.map(({ id }) => id).filter((id) => !gone.has(id)))
  })
})

describe('settling with order per key', () => {
  async function open(count: number) {
    const world = await openPg({ fresh: true })
    const database = fromPg(world.pool, { order: 'perKey' })
    const outbox = sqlOutbox(database, { logger: silentLogger })
    // The table never has statistics, like a table that grows faster than autovacuum visits it.
    await world.query('ALTER TABLE ackord_outbox SET (autovacuum_enabled = false)')
    await world.query(`INSERT INTO ackord_outbox (state, destination, id, type, partition, data, attributes, available_at)
      SELECT 'ready', 'events', 'e' || n, 't', n & 255, '\\x00', '{"id":"e","type":"t","source":"/s","specversion":"1.0"}', clock_timestamp()
      FROM generate_series(1, ${count}) AS n`)
    return { world, outbox }
  }

  it('of 500 among 200,000 without statistics reads no other rows', async () => {
    const { world, outbox } = await open(200_000)
    await using _ = world
    const claimed = await outbox.claim({ limit: 500, lease: 60_000 })
    const settled = claimed.filter((_record, index) => index % 2 === 0)
    const read = async () => {
      await world.query('SELECT pg_stat_force_next_flush()')
      const [row] = await world.query(
        "SELECT seq_tup_read + idx_tup_fetch AS rows FROM pg_stat_user_tables WHERE schemaname = current_schema() AND relname = 'ackord_outbox'",
      )
      return Number(row?.['rows'])
    }
    const before = await read()
    expect(await outbox.settle(settled.map(({ id, token }) => ({ id, token, result: 'published' })))).toEqual(settled.map(() => 'applied'))
    expect((await read()) - before).toBeLessThan(2000)
  })

  it.each(['published', 'failed'] as const)('finds rows that have moved since they were claimed (%s)', async (result) => {
    const { world, outbox } = await open(50)
    await using _ = world
    const claimed = await outbox.claim({ limit: 50, lease: 60_000 })
    expect(claimed).toHaveLength(50)
    // Every row now has the physical position of another one, and some rows are also updated.
    await world.query("DELETE FROM ackord_outbox WHERE id = 'e1'")
    await world.query('VACUUM FULL ackord_outbox')
    await world.query("UPDATE ackord_outbox SET type = 'edited' WHERE id IN ('e2', 'e3')")
    const outcomes = claimed.map(({ id, token }) => ({ id, token, result, error: 'no', retryAfter: 60_000 }))
    const answers = await outbox.settle(outcomes)
    expect(answers.filter((answer) => answer === 'lost')).toHaveLength(1)
    expect(await world.query("SELECT 1 FROM ackord_outbox WHERE state = 'ready'")).toEqual([])
  })
})
