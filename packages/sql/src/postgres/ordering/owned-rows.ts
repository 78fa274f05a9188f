import type { OwnedClaimOptions } from '../../contract/store-dialect.ts'
import type { Give } from '../sql-text.ts'

/** Parts of the statements by which the owner of partitions reads the outbox. Rows are named `o`. */

// In a subquery, because a volatile function could not be looked up in an index.
export const now = '(SELECT clock_timestamp())'

/** What the index of the keys has. */
export const keyed = `o.ordering_key IS NOT NULL AND o.state IN ('ready', 'waiting')`

/** A relay without order may have it still, while the order of a table is changed. */
export const unleased: string = `(o.lease_until IS NULL OR o.lease_until <= ${now})`

export const due: string = `(o.state = 'ready' OR o.available_at <= ${now}) AND ${unleased}`

/**
 * Of `picked`, in this order, the rows that the bytes of a claim allow, with their contents. Large values are not read for that: the server knows their length
 * from their headers, and passes them on as references.
 */
export function foundSql(outbox: string, { maxBytes, spent }: OwnedClaimOptions, give: Give, order: string): string {
  const rows = `picked CROSS JOIN LATERAL (
    SELECT o.data, o.attributes, o.created_at, o.partition, o.ordering_key FROM ${outbox} AS o WHERE o.ctid = picked.ctid OFFSET 0
  ) AS o`
  if (maxBytes === undefined) return `SELECT picked.*, o.* FROM ${rows}`
  const before = give(spent, 'float8')
  const most = give(maxBytes, 'float8')
  return `
  SELECT * FROM (
    SELECT picked.*, o.*, row_number() OVER turns AS number, sum(octet_length(o.data)::float8 + octet_length(o.attributes)) OVER turns AS bytes
    FROM ${rows} WINDOW turns AS (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)
  ) AS counted WHERE ${before} + bytes <= ${most} OR (number = 1 AND ${before} = 0)
`
}

/** The data of a found row, unless it is larger than the whole claim. */
export function dataSql({ maxBytes }: OwnedClaimOptions, give: Give): string {
  return maxBytes === undefined
    ? 'found.data'
    : `CASE WHEN octet_length(found.data) > ${give(maxBytes, 'float8')} THEN NULL ELSE found.data END`
}
