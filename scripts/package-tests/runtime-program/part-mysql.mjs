// @ts-check
import { fromMysql2 } from '@ackord/sql/mysql'
import { createPool } from 'mysql2/promise'
import { schemaPool, testSql } from './sql-worlds.mjs'

/** @param {import('./checks.mjs').Checks} checks */
export async function register(checks) {
  const url = process.env['MARIADB_URL'] ?? ''
  const pool = createPool(url)
  // Locks and settings of the session concern one connection.
  const clock = createPool({ uri: url, connectionLimit: 1 })
  const connect = (/** @type {string} */ schema) => fromMysql2(pool, { schema })
  const queryRows = async (/** @type {string} */ sql, /** @type {unknown[]} */ values = []) =>
    /** @type {Record<string, string>[]} */ ((await pool.query(sql, values))[0])
  /** @type {string[]} */
  const created = []
  const take = schemaPool({
    connect,
    async create(schema) {
      created.push(schema)
      await pool.query(`CREATE DATABASE ${schema}`)
      await pool.query(`CREATE TABLE ${schema}.entries (\`key\` VARCHAR(200) PRIMARY KEY, value VARCHAR(200) NOT NULL)`)
    },
    async filled(schema) {
      const rows = await queryRows('SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?', [schema])
      const parts = rows.map(({ name }) => `SELECT '${name}' AS name WHERE EXISTS (SELECT 1 FROM ${schema}.${name})`)
      return (await queryRows(parts.join(' UNION ALL '))).map(({ name }) => String(name))
    },
    async empty(schema, tables) {
      for (const table of tables) await pool.query(`DELETE FROM ${schema}.${table}`)
    },
  })

  async function open() {
    const { schema, close } = await take()
    const earlier = (/** @type {string} */ column, /** @type {number} */ duration) =>
      `${column} = ${column} - INTERVAL ${Math.round(duration * 1000)} MICROSECOND`
    return {
      database: connect(schema),
      another: () => connect(schema),
      async age(/** @type {readonly string[]} */ columns, /** @type {number} */ duration) {
        const [outbox, relays, notes] = ['outbox', 'relays', 'notes'].map((table) => `${schema}.ackord_${table}`)
        const connection = await clock.getConnection()
        await connection.query(`LOCK TABLES ${outbox} WRITE, ${relays} WRITE, ${notes} WRITE`)
        await connection.query(`UPDATE ${outbox} SET ${columns.map((column) => earlier(column, duration)).join(', ')}`)
        await connection.query(`UPDATE ${relays} SET ${earlier('alive_until', duration)}`)
        await connection.query(`UPDATE ${notes} SET ${earlier('written_at', duration)}`)
        await connection.query('UNLOCK TABLES')
        connection.release()
      },
      async writeEntry(/** @type {typeof pool} */ handle, /** @type {string} */ key, /** @type {string | null} */ value) {
        const sql = `INSERT INTO ${schema}.entries VALUES (?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value)`
        await handle.execute(sql, [key, value])
      },
      async readEntry(/** @type {string} */ key) {
        return (await queryRows(`SELECT value FROM ${schema}.entries WHERE \`key\` = ?`, [key]))[0]?.['value']
      },
      send: (/** @type {typeof pool} */ handle, /** @type {string} */ sql) => handle.query(sql),
      close,
    }
  }

  testSql(checks, 'MariaDB with mysql2', open, { failCommit: false })
  return async () => {
    for (const schema of created) await pool.query(`DROP DATABASE ${schema}`)
    await Promise.all([pool.end(), clock.end()])
  }
}
