import type { SchemaStatements } from '../contract/store-dialect.ts'
import type { Tables } from '../contract/tables.ts'
import { SchemaError } from '../errors.ts'
import { deepErrorNumberOf } from './errors.ts'
import { migrations } from './migrations.ts'
import { quoteIdentifier, quoteLiteral } from './sql-text.ts'

/** In seconds: no practical limit. The lock is released with its connection. */
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

  alreadyExists(error) {
    const number = deepErrorNumberOf(error)
    return number === 1061 || number === 1060 // duplicate key name, duplicate column name
  },

  // Two processes that find an older version at the same time would both migrate it.
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

/**
 * Locks belong to the server, not to a database. Their names have at most 64 characters, which is the length of this hash; MySQL 9 has no SHA1(). The
 * name is the same whether or not the database is named explicitly.
 */
function lockName({ schema, meta }: Tables): string {
  const prefix = schema === undefined ? "CONCAT('`', REPLACE(DATABASE(), '`', '``'), '`.')" : "''"
  return `SHA2(CONCAT('ackord ', ${prefix}, ${quoteLiteral(meta)}), 256)`
}

/** The oldest versions with SKIP LOCKED; on MySQL also with enforced CHECK constraints. */
const oldest = { MariaDB: [10, 6, 0], MySQL: [8, 0, 16] } as const

/** Throws for a server on which the statements would fail, or that does not enforce CHECK constraints. `version` is the result of VERSION(). */
export function checkServerVersion(version: string): void {
  const kind = /mariadb/i.test(version) ? 'MariaDB' : 'MySQL'
  // Some MariaDB servers prefix their version with `5.5.5-`, for old replicas.
  const numbers = /(\d+)\.(\d+)\.(\d+)/.exec(version.replace(/^5\.5\.5-/, ''))
  if (numbers === null) return
  const found = numbers.slice(1).map(Number)
  const needed = oldest[kind]
  for (const [index, number] of needed.entries()) {
    const difference = (found[index] ?? 0) - number
    if (difference > 0) return
    if (difference < 0) {
      throw new SchemaError(
        'older',
        `The server is ${kind} ${found.join('.')}, and the outbox needs ${kind} ${needed.join('.')}: older ones have no SKIP LOCKED${kind === 'MySQL' ? ' or do not keep checks' : ''}.`,
      )
    }
  }
}
