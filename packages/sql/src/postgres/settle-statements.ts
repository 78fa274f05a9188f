/** Names the claims. $1 states, $2 destinations, $3 seqs, $4 tokens: arrays of one length, sorted by seq so that no two callers wait for each other in a circle. */
const claimed = `unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[])`

/** The whole key, because nothing indexes seq alone; then the fence. */
function holds(claim: string): string {
  return `o.state = ${claim}.state AND o.destination = ${claim}.destination AND o.seq = ${claim}.seq
    AND o.lease_token = ${claim}.token AND o.lease_until > clock_timestamp()`
}

/** Extends leases. The claims as above, $5 milliseconds. Gives the seqs whose claim held. */
export function renewSql(table: string): string {
  return `UPDATE ${table} AS o SET lease_until = clock_timestamp() + $5::float8 * interval '1 millisecond'
FROM ${claimed} AS claim(state, destination, seq, token)
WHERE ${holds('claim')}
RETURNING o.seq::text AS seq`
}

/** Gives leases back, with the attempt. The claims as above. */
export function releaseSql(table: string): string {
  return `UPDATE ${table} AS o SET lease_token = NULL, lease_until = NULL, attempts = o.attempts - 1
FROM ${claimed} AS claim(state, destination, seq, token)
WHERE ${holds('claim')}`
}

/** What an `outcome` with a result, an error and a time to retry after makes of the row `o`. */
export const outcomeChanges = `    state = CASE outcome.result WHEN 'failed' THEN 'waiting' ELSE outcome.result END,
    available_at = CASE outcome.result WHEN 'failed' THEN clock_timestamp() + outcome.retry_after * interval '1 millisecond' ELSE o.available_at END,
    last_error = coalesce(outcome.error, o.last_error),
    parked_at = CASE outcome.result WHEN 'parked' THEN clock_timestamp() END,
    published_at = CASE outcome.result WHEN 'published' THEN clock_timestamp() END,
    lease_token = NULL, lease_until = NULL`

/**
 * Applies outcomes. The claims as above, $5 results, $6 errors, $7 milliseconds until the next attempt. Gives the seqs whose claim held.
 * One statement: what is published is deleted, or kept with `retain`; the rest changes its state.
 */
export function settleSql(table: string, retain: boolean): string {
  const update = `UPDATE ${table} AS o SET
${outcomeChanges}
  FROM outcome
  WHERE ${retain ? '' : `outcome.result <> 'published' AND `}${holds('outcome')}
  RETURNING o.seq`
  const remove = `DELETE FROM ${table} AS o USING outcome
  WHERE outcome.result = 'published' AND ${holds('outcome')}
  RETURNING o.seq`
  return `WITH outcome AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[], $5::text[], $6::text[], $7::float8[])
    AS outcome(state, destination, seq, token, result, error, retry_after)
),
changed AS (${update})${retain ? '' : `,\nremoved AS (${remove})`}
SELECT seq::text AS seq FROM changed${retain ? '' : ' UNION ALL SELECT seq::text FROM removed'}`
}
