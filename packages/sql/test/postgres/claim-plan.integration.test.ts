import { silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import type { ClaimedOutcome } from '../../src/contract/store-dialect.ts'
import { sqlOutbox } from '../../src/index.ts'
import { claimSql } from '../../src/postgres/claims.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { settlement } from '../../src/postgres/settle.ts'
import { openPg } from '../support/world.ts'

const table = 'ackord_outbox'
const maxBytes = 16_777_216
const token = '00000000-0000-4000-8000-000000000001'

/** The plan nodes that read the table, as named by EXPLAIN. */
function scansOf(plan: unknown): string[] {
  const found: string[] = []
  JSON.stringify(plan, (_, value: unknown) => {
    if (
      typeof value === 'object' &&
      value !== null &&
      'Relation Name' in value &&
      'Node Type' in value &&
      value['Relation Name'] === table
    ) {
      if (value['Node Type'] !== 'ModifyTable') found.push(String(value['Node Type']))
    }
    return value
  })
  return found
}

describe('the claim on a table of 100,000 records', () => {
  it('uses the index, ten times in a row on one connection, beside retries and a stalled destination', async () => {
    await using world = await openPg({ max: 1, fresh: true })
    const insert = (state: string, destination: string, count: number, delay: string) =>
      world.query(
        `INSERT INTO ${table} (state, destination, id, type, partition, data, attributes, available_at, attempts)
         SELECT '${state}', '${destination}', 'e' || n, 'order.placed', 0, '\\x00', '{"id":"e"}', clock_timestamp() + interval '${delay}', ${state === 'waiting' ? 1 : 0}
         FROM generate_series(1, ${count}) AS n`,
      )
    await insert('ready', 'stalled', 40_000, '0')
    await insert('ready', 'events', 30_000, '0')
    await insert('waiting', 'events', 29_990, '1 hour')
    await insert('waiting', 'events', 10, '-1 hour')
    await world.query(`ANALYZE ${table}`)

    const { pool } = world
    const store = sqlOutbox(fromPg(pool), { logger: silentLogger })
    const seen = new Set<string>()
    // A26, and named statements, which switch to generic plans after five executions.
    for (let round = 0; round < 10; round += 1) {
      const claimed = await store.claim({ limit: 500, lease: 60_000, maxBytes, except: ['stalled'] })
      expect(claimed).toHaveLength(500)
      for (const { id } of claimed) seen.add(id)
      const plan = (
        await pool.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${claimSql(table, { retried: undefined, named: false })}`, [
          500,
          60_000,
          token,
          ['stalled'],
          null,
          maxBytes,
          0,
        ])
      ).rows[0]
      const scans = scansOf(plan)
      expect(scans.length).toBeGreaterThan(3)
      expect(scans.filter((scan) => scan === 'Seq Scan')).toEqual([])
      expect(await world.query(`UPDATE ${table} SET lease_token = NULL, lease_until = NULL WHERE lease_token = $1`, [token])).toEqual([])
    }
    expect(seen.size).toBe(5000)

    const settled = await store.claim({ limit: 500, lease: 60_000, destinations: ['events'], retried: 'never' })
    const published = settled.map(({ id }): ClaimedOutcome => {
      return { state: 'ready', destination: 'events', seq: id, token, outcome: { id, token, result: 'published' } }
    })
    const parked = published.map((placed): ClaimedOutcome => ({ ...placed, outcome: { ...placed.outcome, result: 'parked', error: 'no' } }))
    const farApart = published.map((placed, index) => ({ ...placed, seq: String(1 + index * 100) }))
    for (const outcomes of [published, farApart, [...published.slice(1), ...parked.slice(0, 1)], parked]) {
      const { sql, parameters } = settlement(table, outcomes, { retain: false, failures: true })
      const plan = (await pool.query(`EXPLAIN (FORMAT JSON) ${sql}`, [...parameters])).rows[0]
      const scans = scansOf(plan)
      expect(scans.length).toBeGreaterThan(0)
      expect(scans.filter((scan) => scan === 'Seq Scan')).toEqual([])
    }
    expect(new Set(await store.settle(settled.map(({ id, token: held }) => ({ id, token: held, result: 'published' }))))).toEqual(
      new Set(['applied']),
    )
  })
})
