import type { OwnedClaimOptions } from '../../contract/store-dialect.ts'
import type { BindParameter } from '../sql-text.ts'

/** Parts of the statements with which the owner of partitions reads the outbox. Rows are named `o`. */

// In a subquery, because an index cannot be used with a volatile function.
export const now = '(SELECT clock_timestamp())'

/** The condition of the index of keys. */
export const keyed = `o.ordering_key IS NOT NULL AND o.state IN ('ready', 'waiting')`

/** A relay without order may still have leased it while the order of a table is being changed. */
export const unleased: string = `(o.lease_until IS NULL OR o.lease_until <= ${now})`

export const due: string = `(o.state = 'ready' OR o.available_at <= ${now}) AND ${unleased}`

/**
 * The rows of `picked`, in this order, that the byte limit of a claim allows, with their contents. Large values are not read for that: the server
 * knows their length from their headers, and passes references.
 */
export function foundSql(outbox: string, { maxBytes, spent }: OwnedClaimOptions, bind: BindParameter, order: string): string {
  const rows = `picked CROSS JOIN LATERAL (
    SELECT o.data, o.attributes, o.created_at, o.partition, o.ordering_key FROM ${outbox} AS o WHERE o.ctid = picked.ctid OFFSET 0
  ) AS o`
  if (maxBytes === undefined) return `SELECT picked.*, o.* FROM ${rows}`
  const before = bind(spent, 'float8')
  const max = bind(maxBytes, 'float8')
  return `
  SELECT * FROM (
    SELECT picked.*, o.*, row_number() OVER turns AS number, sum(octet_length(o.data)::float8 + octet_length(o.attributes)) OVER turns AS bytes
    FROM ${rows} WINDOW turns AS (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)
  ) AS counted WHERE ${before} + bytes <= ${max} OR (number = 1 AND ${before} = 0)
`
}

/** The data of a row, unless it is larger than the whole claim. */
export function dataSql({ maxBytes }: OwnedClaimOptions, bind: BindParameter): string {
  return maxBytes === undefined
    ? 'found.data'
    : `CASE WHEN octet_length(found.data) > ${bind(maxBytes, 'float8')} THEN NULL ELSE found.data END`
}
