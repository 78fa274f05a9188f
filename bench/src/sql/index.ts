import type { EventEmitter } from 'node:events'
import { createSchema } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import pg from 'pg'
import { spread } from '../figures.ts'
import { rateOf, runRounds } from '../rounds.ts'
import { appendOverhead } from './append-overhead.ts'
import { mariadbRatios } from './mariadb.ts'
import { byHand, groupsByHand, throughAckord } from './postgres.ts'
import { sharedRows } from './shared-rows.ts'
import { sqliteRatios } from './sqlite.ts'

const url = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'
const schema = `ackord_bench_${process.pid}`
const connections = 16
const group = { size: 50, groups: 4 }
const rounds = { rounds: 6, count: 4000 }

function openPool(max: number): pg.Pool {
  return new pg.Pool({ connectionString: url, max, options: `-c search_path=${schema}` })
}

/** The number of round trips per message, counted on the connection: the server sends ReadyForQuery once for each. */
async function roundTrips(): Promise<number> {
  const pool = openPool(1)
  try {
    const client = await pool.connect()
    let trips = 0
    const { connection } = client as unknown as { connection: EventEmitter }
    connection.on('readyForQuery', () => {
      trips += 1
    })
    client.release()
    const count = 100
    await throughAckord(pool, count, { concurrency: 1 })
    return trips / count
  } finally {
    await pool.end()
  }
}

/** Exactly-once handling on PostgreSQL, against the same statements written by hand. */
export async function sql(): Promise<Record<string, unknown>> {
  const pool = openPool(connections)
  try {
    await pool.query(`CREATE SCHEMA ${schema}`)
    await createSchema(fromPg(pool))
    await pool.query('CREATE TABLE orders (id text PRIMARY KEY, total integer NOT NULL)')
    const rates = await runRounds(
      {
        hand: (count) => rateOf(count, () => byHand(pool, count, connections)),
        ackord: (count) => rateOf(count, () => throughAckord(pool, count, { concurrency: connections })),
        groupHand: (count) => rateOf(count, () => groupsByHand(pool, count, group)),
        group: (count) => rateOf(count, () => throughAckord(pool, count, { concurrency: group.size * group.groups, groupCommit: group })),
      },
      rounds,
    )
    const overhead = await appendOverhead(pool, { ...rounds, connections })
    const shared = await sharedRows(url)
    return {
      ...spread('hand_written_per_s', rates.of('hand')),
      ...spread('ackord_per_s', rates.of('ackord')),
      ...spread('ratio', rates.ratios('ackord', 'hand')),
      round_trips: await roundTrips(),
      ...spread('append_overhead', overhead.written),
      ...spread('append_overhead_in_own_transaction', overhead.byHand),
      ...spread('append_overhead_hand_written', overhead.inserted),
      ...spread('group_hand_written_per_s', rates.of('groupHand')),
      ...spread('group_per_s', rates.of('group')),
      ...spread('group_ratio', rates.ratios('group', 'groupHand')),
      shared_rows_alone_per_s: Math.round(shared.alone),
      shared_rows_group_per_s: Math.round(shared.grouped),
      shared_rows_group_ratio: rounded(shared.grouped / shared.alone),
      ...spread('mariadb_ratio', await mariadbRatios({ ...rounds, connections })),
      ...spread('sqlite_ratio', await sqliteRatios(rounds)),
    }
  } finally {
    await pool.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
    await pool.end()
  }
}

function rounded(ratio: number): number {
  return Math.round(ratio * 100) / 100
}
