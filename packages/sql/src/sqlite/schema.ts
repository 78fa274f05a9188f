import type { SchemaStatements } from '../contract/store-dialect.ts'
import { SchemaError } from '../errors.ts'
import { migrations } from './migrations.ts'
import { now } from './sql-text.ts'

/** Supports STRICT, RETURNING, `->>` and milliseconds in unixepoch(). */
const oldestMinor = 42

export const sqliteSchema: SchemaStatements = {
  async check(run) {
    const { rows } = await run('SELECT sqlite_version() AS version')
    const version = String(rows[0]?.['version'])
    const [major = 0, minor = 0] = version.split('.').map(Number)
    if (major > 3 || minor >= oldestMinor) return
    throw new SchemaError('older', `The client bundles SQLite ${version}, but the tables require 3.${oldestMinor}. Update the client.`)
  },

  migrations,

  meta: ({ meta }) => `CREATE TABLE IF NOT EXISTS ${meta} (
  name           TEXT PRIMARY KEY NOT NULL,
  version        INTEGER NOT NULL,
  oldest_reader  INTEGER NOT NULL,
  changed_at     INTEGER NOT NULL DEFAULT (${now})
) STRICT`,

  setVersion: ({ meta }, version, oldestReader) =>
    `INSERT INTO ${meta} (name, version, oldest_reader) VALUES ('schema', ${version}, ${oldestReader})
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = ${now}`,

  // The transaction is the only writer from its beginning.
  lock: () => [],
  unlock: () => [],
  namespace: () => undefined,
}
