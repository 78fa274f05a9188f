import type { Row } from '@ackord/sql'
import { fromMysql2 } from '@ackord/sql/mysql'
import { createPool } from 'mysql2/promise'
import type { ServiceUrl } from '../settings/urls.ts'
import { sqlStore, tableOptions } from './sql-store.ts'
import type { SqlStore, StoreLocation } from './store.ts'

const connectTimeout = 5000

/** MySQL and MariaDB. */
export function openMysql({ text, scheme, address }: ServiceUrl, location: StoreLocation): SqlStore {
  const pool = createPool({ uri: text.replace(`${scheme}:`, 'mysql:'), connectTimeout, connectionLimit: 10 })
  const database = fromMysql2(pool, tableOptions(location))
  return sqlStore(
    database,
    {
      kind: 'mysql',
      address,
      async run(handle, sql, parameters) {
        const [rows] = await handle.query(sql, [...parameters])
        // A statement without rows returns a header instead of them.
        return Array.isArray(rows) ? (rows as Row[]) : []
      },
      quote: (name) => `\`${name.replaceAll('`', '``')}\``,
      close: () => pool.end(),
    },
    location,
  )
}
