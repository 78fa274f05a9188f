import { createPool } from 'mysql2/promise'
import { testSqlConformance } from '../support/sql-conformance.ts'
import { mysqlKinds, poolOptions } from './support/mysql-world.ts'

for (const { name, open } of mysqlKinds) {
  testSqlConformance(
    name,
    async () => {
      const world = await open()
      const { database, schema } = world
      return {
        database,
        tables: {},
        async age(columns, duration) {
          const earlier = columns.map((column) => `${column} = ${column} - INTERVAL ${Math.round(duration * 1000)} MICROSECOND`)
          const pool = createPool(poolOptions(schema, 1))
          // The lock first: row by row it would meet the relay's statements halfway, and the server would see a deadlock.
          await pool.query('LOCK TABLES ackord_outbox WRITE')
          await pool.query(`UPDATE ackord_outbox SET ${earlier.join(', ')}`)
          await pool.query('UNLOCK TABLES')
          await pool.end()
        },
        async createEntries() {
          await world.query('CREATE TABLE entries (`key` VARCHAR(200) PRIMARY KEY, value VARCHAR(200) NOT NULL)')
        },
        async writeEntry(handle, key, value) {
          // Both ways in which statements are sent.
          const call = value === null ? 'execute' : 'query'
          await handle[call]('INSERT INTO entries VALUES (?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value)', [key, value])
        },
        async readEntry(key) {
          const [row] = await world.query('SELECT value FROM entries WHERE `key` = ?', [key])
          return row === undefined ? undefined : String(row['value'])
        },
        [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
      }
    },
    // Nothing is checked at COMMIT on MySQL that could fail it.
    { failCommit: false },
  )
}
