// @ts-check
import pg from 'pg'
import { connections, sessionName } from './contestant.mjs'

export const postgresUrl = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

export const insertRequest = 'INSERT INTO requests (id, total) VALUES ($1, $2)'
export const insertOrder = 'INSERT INTO orders (id, total) VALUES ($1, $2)'
export const insertOrders = 'INSERT INTO orders (id, total) SELECT * FROM unnest($1::text[], $2::integer[])'

/**
 * @typedef {object} PostgresWorld
 * @property {string} schema for the tables of the business
 * @property {string} queueSchema for the tables of a job queue, which creates it
 * @property {pg.Pool} admin
 * @property {pg.Pool} writers
 * @property {string} searchPath for connections that find the tables of the business, as `options` of a connection
 * @property {() => pg.Pool} createPool
 * @property {(work: (client: pg.PoolClient) => Promise<unknown>) => Promise<void>} write a transaction of a writer
 * @property {(sql: string) => Promise<number>} count
 * @property {() => Promise<void>} vacuum
 * @property {() => Promise<void>} close
 */

/** Two tables of the business: `requests`, to which writers add a row together with a message, and `orders`, to which handlers do. @returns {Promise<PostgresWorld>} */
export async function openPostgres() {
  const schema = sessionName()
  const queueSchema = `${schema}_queue`
  const searchPath = `-c search_path=${schema}`
  const createPool = (max = connections) => new pg.Pool({ connectionString: postgresUrl, max, options: searchPath })
  const admin = createPool(1)
  const writers = createPool()
  await admin.query(`CREATE SCHEMA ${schema}`)
  await admin.query('CREATE TABLE requests (id text PRIMARY KEY, total integer NOT NULL)')
  await admin.query('CREATE TABLE orders (id text PRIMARY KEY, total integer NOT NULL)')
  return {
    schema,
    queueSchema,
    admin,
    writers,
    searchPath,
    createPool: () => createPool(),
    write: (work) => inTransaction(writers, work),
    async count(sql) {
      const { rows } = await admin.query(sql)
      return Number(rows[0].count)
    },
    async vacuum() {
      const { rows } = await admin.query('SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ($1, $2)', [schema, queueSchema])
      for (const { schemaname, tablename } of rows) await admin.query(`VACUUM ANALYZE ${schemaname}.${pg.escapeIdentifier(tablename)}`)
    },
    async close() {
      await writers.end()
      await admin.query(`DROP SCHEMA IF EXISTS ${schema}, ${queueSchema} CASCADE`)
      await admin.end()
    },
  }
}

/** Begins a transaction that sees the database as it is now, so that no row that dies from now on can be removed. @returns {Promise<() => Promise<void>>} ends it */
export async function holdSnapshot() {
  const client = new pg.Client(postgresUrl)
  await client.connect()
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  // The first statement takes the snapshot.
  await client.query('SELECT 1')
  return () => client.end()
}

/** A transaction as it is written by hand. @param {pg.Pool} pool @param {(client: pg.PoolClient) => Promise<unknown>} work */
export async function inTransaction(pool, work) {
  const client = await pool.connect()
  let broken = true
  try {
    await client.query('BEGIN')
    await work(client)
    await client.query('COMMIT')
    broken = false
  } finally {
    client.release(broken)
  }
}
