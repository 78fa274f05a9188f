import type { LeasedAppender } from '../dialect.ts'
import type { Statement } from '../driver.ts'
import { instant } from './instant.ts'

/** A statement per row, which is prepared: they are few, and go together with others where that is cheaper. */
export function leasedAppender(table: string): LeasedAppender {
  const sql = `INSERT INTO ${table} (state, destination, id, type, content_type, ordering_key, partition, data, attributes, available_at,
  attempts, lease_token, lease_until)
VALUES ('ready', $1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp(), 1, $9, clock_timestamp() + $10::float8 * interval '1 millisecond')
RETURNING seq::text AS seq, ${instant('created_at')} AS created_at`

  return function appendLeased(rows, { token, duration, onStored }) {
    return rows.map((row): Statement => {
      const { destination, id, type, contentType, orderingKey, partition, data, attributes } = row
      const parameters = [destination, id, type, contentType, orderingKey, partition, data, attributes, token, duration]
      return { sql, parameters, prepare: true, onRow: ([seq, createdAt]) => onStored(String(seq), Number(createdAt)) }
    })
  }
}
