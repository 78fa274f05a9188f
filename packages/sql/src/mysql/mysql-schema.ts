import type { SchemaStatements } from '../store-dialect.ts'
import type { Tables } from '../tables.ts'
import { migrations } from './migrations.ts'
import { deepErrorNumberOf } from './mysql-error.ts'
import { quoteIdentifier } from './quote-identifier.ts'
import { quoteLiteral } from './quote-literal.ts'
import { checkServerVersion } from './server-version.ts'

/** In seconds: as long as it takes. Whoever holds the lock loses it with the connection. */
const lockWait = 31_536_000

export const mysqlSchema: SchemaStatements = {
  migrations,

  async check(run) {
    const { rows } = await run('SELECT VERSION() AS version')
    checkServerVersion(String(rows[0]?.['version']))
  },

  meta: ({ meta }) => `CREATE TABLE IF NOT EXISTS ${meta} (
  name           VARBINARY(64) NOT NULL PRIMARY KEY,
  version        INT NOT NULL,
  oldest_reader  INT NOT NULL,
  changed_at     DATETIME(6) NOT NULL
) ENGINE = InnoDB`,

  setVersion: ({ meta }, version, oldestReader) =>
    `INSERT INTO ${meta} (name, version, oldest_reader, changed_at) VALUES ('schema', ${version}, ${oldestReader}, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE version = ${version}, oldest_reader = ${oldestReader}, changed_at = UTC_TIMESTAMP(6)`,

  // Duplicate name of a key.
  isThere: (error) => deepErrorNumberOf(error) === 1061,

  // Two that find an older version at once would both migrate it.
  lock: (tables) => [`SELECT GET_LOCK(${lockName(tables)}, ${lockWait})`],
  unlock: (tables) => [`SELECT RELEASE_LOCK(${lockName(tables)})`],

  namespace({ schema }) {
    if (schema === undefined) return undefined
    return {
      exists: `SELECT 1 FROM information_schema.SCHEMATA WHERE CAST(SCHEMA_NAME AS BINARY) = ${quoteLiteral(schema)}`,
      create: `CREATE DATABASE IF NOT EXISTS ${quoteIdentifier('schema', schema)}`,
    }
  },
}

/** Locks are the server's, not a database's, and their names have 64 characters at most. The same one whether or not the database is named. */
function lockName({ schema, meta }: Tables): string {
  const prefix = schema === undefined ? "CONCAT('`', REPLACE(DATABASE(), '`', '``'), '`.')" : "''"
  return `SHA1(CONCAT('ackord ', ${prefix}, ${quoteLiteral(meta)}))`
}
