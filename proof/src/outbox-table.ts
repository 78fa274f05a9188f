import { silentLogger } from '@ackord/core'
import type { OutboxStore } from '@ackord/outbox'
import { createSchema, sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import pg from 'pg'
import { ExplainingPool } from './explaining-pool.ts'

const url = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

/** Where the records go that can be published. */
const destinations = ['order-events', 'payment-events', 'stock-events']

/** Rows that are put into a table, in the order of their seq. */
export interface Fill {
  readonly rows: number
  readonly state: 'ready' | 'waiting' | 'published'
  /** Default: one of three, in turn. */
  readonly destination?: string
}

/** The store on a connection pool of its own, as a relay in a process of its own has it. */
export interface RelayStore extends AsyncDisposable {
  readonly pool: ExplainingPool
  readonly store: OutboxStore
  query(sql: string): Promise<pg.QueryResult>
}

export interface OutboxTable extends AsyncDisposable {
  fill(fill: Fill): Promise<void>
  /** What autovacuum does after so many rows, without waiting for it. */
  vacuum(): Promise<void>
  connect(connections: number): RelayStore
}

export const tableName = 'ackord_outbox'

/** The real tables, in a schema of their own, which is dropped at the end; and before, in case a run was killed. */
export async function openOutboxTable(name: string): Promise<OutboxTable> {
  const schema = `ackord_proof_${name}`
  const door = new pg.Pool({ connectionString: url, max: 1 })
  door.on('error', () => {})
  await door.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
  await createSchema(fromPg(door, { schema, logger: silentLogger }))
  const table = `${schema}.${tableName}`
  return {
    async fill(fill) {
      await door.query(fillSql(table, fill))
    },
    async vacuum() {
      await door.query(`VACUUM (ANALYZE) ${table}`)
    },
    connect(connections) {
      const pool = new pg.Pool({ connectionString: url, max: connections })
      const explaining = new ExplainingPool(pool)
      return {
        pool: explaining,
        store: sqlOutbox(fromPg(explaining, { schema, logger: silentLogger }), { logger: silentLogger }),
        query: (sql) => pool.query(sql),
        [Symbol.asyncDispose]: () => pool.end(),
      }
    },
    async [Symbol.asyncDispose]() {
      await door.query(`DROP SCHEMA ${schema} CASCADE`)
      await door.end()
    },
  }
}

/** Rows as the middleware writes them, with 200 bytes of data. */
function fillSql(table: string, { rows, state, destination }: Fill): string {
  const names = destination === undefined ? destinations : [destination]
  const picked = `(ARRAY[${names.map((name) => `'${name}'`).join(', ')}])[1 + n % ${names.length}]`
  const attributes = `'{"id":"' || id || '","type":"order.placed","source":"/orders","specversion":"1.0","datacontenttype":"application/json"}'`
  const available = state === 'waiting' ? `clock_timestamp() + interval '1 hour'` : 'clock_timestamp()'
  return `INSERT INTO ${table} (state, destination, id, type, content_type, partition, data, attributes, available_at, attempts, last_error, published_at)
SELECT '${state}', ${picked}, id, 'order.placed', 'application/json', n % 256, convert_to(repeat('x', 200), 'UTF8'), ${attributes}, ${available},
  ${state === 'waiting' ? `3, 'it did not answer'` : '0, NULL'}, ${state === 'published' ? 'clock_timestamp()' : 'NULL'}
FROM (SELECT n, gen_random_uuid()::text AS id FROM generate_series(1, ${rows}) AS n) AS made`
}
