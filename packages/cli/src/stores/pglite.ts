import type { Row } from '@ackord/sql'
import { fromPglite } from '@ackord/sql/postgres'
import { sqlStore, tableOptions } from './sql-store.ts'
import type { SqlStore, StoreLocation } from './store.ts'

/** PostgreSQL in this process, in memory: for the demo, which then needs no server. */
export async function openPglite(location: StoreLocation): Promise<SqlStore> {
  const { PGlite } = await import('@electric-sql/pglite')
  const pglite = await PGlite.create()
  const database = fromPglite(pglite, tableOptions(location))
  return sqlStore(
    database,
    {
      kind: 'pglite',
      address: 'pglite:',
      async run(handle, sql, parameters) {
        const { rows } = await handle.query<Row>(sql, [...parameters])
        return rows
      },
      quote: (name) => `"${name.replaceAll('"', '""')}"`,
      close: () => pglite.close(),
    },
    location,
  )
}
