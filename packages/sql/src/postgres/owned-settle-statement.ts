import type { OwnedOutcome } from '../ownership-statements.ts'
import type { Tables } from '../tables.ts'
import { numberArray } from './array-literal.ts'
import { outcomeChanges } from './settle-statements.ts'

export interface OwnedSettleOptions {
  readonly retain: boolean
  /** Whether all outcomes are `published`. */
  readonly onlyPublished: boolean
}

/**
 * Applies outcomes if their member lives and owns the partition with that epoch. $1 the member; $2 partitions and $3 epochs, each once; $4 states and $5
 * destinations, each pair once; then for each outcome, sorted by seq, $6 the seq, $7 the partition, $8 the number of the pair; and where not everything is
 * published, $9 results, $10 errors, $11 milliseconds until the next attempt. Gives the seqs that were settled. One statement: what is
 * published is deleted, or kept with `retain`; the rest changes its state and has one attempt more.
 */
export function ownedSettleSql({ outbox, relays, partitions }: Tables, { retain, onlyPublished }: OwnedSettleOptions): string {
  const mixed = retain || !onlyPublished
  const given = mixed
    ? 'unnest($6::bigint[], $7::smallint[], $8::integer[], $9::text[], $10::text[], $11::float8[]) AS given(seq, partition, pair, result, error, retry_after)'
    : 'unnest($6::bigint[], $7::smallint[], $8::integer[]) AS given(seq, partition, pair)'
  const place = `o.state = outcome.state AND o.destination = outcome.destination AND o.seq = outcome.seq`
  const update = `UPDATE ${outbox} AS o SET
    attempts = CASE outcome.result WHEN 'published' THEN o.attempts ELSE o.attempts + 1 END,
${outcomeChanges}
  FROM outcome
  WHERE ${retain ? '' : `outcome.result <> 'published' AND `}${place}
  RETURNING o.seq`
  const remove = `DELETE FROM ${outbox} AS o USING outcome
  WHERE ${mixed ? `outcome.result = 'published' AND ` : ''}${place}
  RETURNING o.seq`
  const settled = [...(mixed ? ['SELECT seq::text AS seq FROM changed'] : []), ...(retain ? [] : ['SELECT seq::text AS seq FROM removed'])]
  return `WITH outcome AS MATERIALIZED (
  SELECT given.*, ($4::text[])[pair] AS state, ($5::text[])[pair] AS destination FROM ${given}
  WHERE given.partition IN (
    SELECT p.partition FROM ${partitions} AS p JOIN unnest($2::smallint[], $3::bigint[]) AS fence(partition, epoch) USING (partition, epoch)
    WHERE p.owner = $1::uuid AND EXISTS (SELECT FROM ${relays} AS r WHERE r.member = $1::uuid AND r.alive_until > clock_timestamp())
  )
)${mixed ? `,\nchanged AS (${update})` : ''}${retain ? '' : `,\nremoved AS (${remove})`}
${settled.join(' UNION ALL ')}`
}

/** The parameters. Arrays of numbers are written by hand: drivers look at every element, and there are hundreds. */
export function ownedSettleParameters(
  member: string,
  outcomes: readonly OwnedOutcome[],
  { retain, onlyPublished }: OwnedSettleOptions,
): unknown[] {
  const epochs = new Map(outcomes.map(({ held }) => [held.partition, held.epoch]))
  const pairs = new Map<string, { readonly number: number; readonly state: string; readonly destination: string }>()
  const numbers = outcomes.map(({ held: { state, destination } }) => {
    const name = `${state} ${destination}`
    const pair = pairs.get(name) ?? { number: pairs.size + 1, state, destination }
    pairs.set(name, pair)
    return pair.number
  })
  const places = [
    member,
    numberArray([...epochs.keys()]),
    numberArray([...epochs.values()]),
    [...pairs.values()].map(({ state }) => state),
    [...pairs.values()].map(({ destination }) => destination),
    numberArray(outcomes.map(({ held }) => held.seq)),
    numberArray(outcomes.map(({ held }) => held.partition)),
    numberArray(numbers),
  ]
  if (onlyPublished && !retain) return places
  return [
    ...places,
    outcomes.map(({ outcome }) => outcome.result),
    outcomes.map(({ outcome }) => (outcome.result === 'published' ? null : outcome.error)),
    outcomes.map(({ outcome }) => (outcome.result === 'failed' ? outcome.retryAfter : null)),
  ]
}
