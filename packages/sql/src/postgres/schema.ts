import type { SchemaStatements } from '../contract/store-dialect.ts'
import { inboxPartitions } from './inbox-partitions.ts'
import { migrations } from './migrations.ts'
import { quoteIdentifier, quoteLiteral } from './sql-text.ts'

export const postgresSchema: SchemaStatements = {
  migrations,
  inboxPartitions,

  meta: ({ meta }) => `CREATE TABLE IF NOT EXISTS ${meta} (
  name           text COLLATE "C" PRIMARY KEY,
  version        integer NOT NULL,
  oldest_reader  integer NOT NULL,
  changed_at     timestamptz NOT NULL DEFAULT clock_timestamp()
)`,

  setVersion: ({ meta }, version, oldestReader) =>
    `INSERT INTO ${meta} (name, version, oldest_reader) VALUES ('schema', ${version}, ${oldestReader})
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = clock_timestamp()`,

  // CREATE … IF NOT EXISTS is not safe to run concurrently: two of them collide in the catalogue.
  lock: ({ meta }) => [`SELECT pg_advisory_xact_lock(hashtextextended(${quoteLiteral(`ackord ${meta}`)}, 0))`],
  unlock: () => [],

  namespace({ schema }) {
    if (schema === undefined) return undefined
    return {
      exists: `SELECT 1 FROM pg_namespace WHERE nspname = ${quoteLiteral(schema)}`,
      create: `CREATE SCHEMA ${quoteIdentifier('schema', schema)}`,
    }
  },
}
