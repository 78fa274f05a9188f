// @ts-check
import { silentLogger } from '@ackord/core'
import { fromPg } from '@ackord/sql/postgres'
import pg from 'pg'
import { schemaPool, testSql } from './sql-worlds.mjs'

/** @param {import('./checks.mjs').Checks} checks */
export async function register(checks) {
  const pool = new pg.Pool({ connectionString: process.env['POSTGRES_URL'] })
  const connect = (/** @type {string} */ schema) => fromPg(pool, { schema, logger: silentLogger })
  const take = schemaPool({
    connect,
    async create(schema) {
      await pool.query(`CREATE SCHEMA ${schema};
        CREATE TABLE ${schema}.entries (key text PRIMARY KEY, value text NOT NULL);
        CREATE TABLE ${schema}.parents (n int PRIMARY KEY);
        CREATE TABLE ${schema}.children (n int REFERENCES ${schema}.parents DEFERRABLE INITIALLY DEFERRED)`)
    },
    async filled(schema) {
      const { rows } = await pool.query('SELECT tablename FROM pg_tables WHERE schemaname = $1', [schema])
      const parts = rows.map(({ tablename }) => `SELECT '${tablename}' AS name WHERE EXISTS (SELECT FROM ${schema}.${tablename})`)
      return (await pool.query(parts.join(' UNION ALL '))).rows.map(({ name }) => name)
    },
    async empty(schema, tables) {
      for (const table of tables) await pool.query(`DELETE FROM ${schema}.${table}`)
    },
  })

  async function open() {
    const { schema, close } = await take()
    const earlier = (/** @type {string} */ column, /** @type {number} */ duration) =>
      `${column} = ${column} - make_interval(secs => ${duration} / 1000.0)`
    return {
      database: connect(schema),
      another: () => connect(schema),
      async age(/** @type {readonly string[]} */ columns, /** @type {number} */ duration) {
        const tables = ['relays', 'outbox', 'notes'].map((table) => `${schema}.ackord_${table}`)
        const [relays, outbox, notes] = tables
        await pool.query(`DO $$ BEGIN LOCK TABLE ${tables.join(', ')} IN EXCLUSIVE MODE;
          UPDATE ${outbox} SET ${columns.map((column) => earlier(column, duration)).join(', ')};
          UPDATE ${relays} SET ${earlier('alive_until', duration)};
          UPDATE ${notes} SET ${earlier('written_at', duration)}; END $$`)
      },
      async writeEntry(/** @type {pg.ClientBase} */ handle, /** @type {string} */ key, /** @type {string | null} */ value) {
        const text = `INSERT INTO ${schema}.entries VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`
        await handle.query(text, [key, value])
      },
      async readEntry(/** @type {string} */ key) {
        const { rows } = await pool.query(`SELECT value FROM ${schema}.entries WHERE key = $1`, [key])
        return rows[0]?.value
      },
      send: (/** @type {pg.ClientBase} */ handle, /** @type {string} */ sql) => handle.query(sql),
      async failCommit(/** @type {pg.ClientBase} */ handle) {
        await handle.query(`INSERT INTO ${schema}.children VALUES (17)`)
      },
      close,
    }
  }

  testSql(checks, 'PostgreSQL with pg', open, { failCommit: true })
  return async () => {
    await pool.end()
  }
}
