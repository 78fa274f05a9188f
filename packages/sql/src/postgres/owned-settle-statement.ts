import type { OwnedOutcome } from '../ownership-statements.ts'
import type { Tables } from '../tables.ts'
import { numberArray } from './array-literal.ts'
import { giveTo } from './give-to.ts'
import type { OwnedClaimStatement } from './owned-claim-statement.ts'
import { deleteGroupsSql, groupRows, isDeletable, resultColumns, seqsSql, settledSql } from './row-groups.ts'
import { outcomeChanges } from './settle-statements.ts'

/**
 * Applies outcomes if their member lives and owns the partition with that epoch. Gives the seqs that were settled, as one text. One statement: what is
 * published is deleted, or kept with `retain`; the rest changes its state and has one attempt more. Outcomes come sorted by seq.
 */
export function ownedSettlement(tables: Tables, retain: boolean, member: string, outcomes: readonly OwnedOutcome[]): OwnedClaimStatement {
  // Arrays of numbers are written by hand: drivers look at every element, and there are hundreds.
  const epochs = new Map(outcomes.map(({ held }) => [held.partition, held.epoch]))
  const fence = [member, numberArray([...epochs.keys()]), numberArray([...epochs.values()])]
  const { groups, numbers } = groupRows(outcomes, ({ held: { state, destination } }) => `${state} ${destination}`)
  if (!retain && isDeletable(outcomes, groups)) {
    const parameters: unknown[] = [...fence]
    const give = giveTo(parameters)
    const conditions = groups.map((group) => {
      const [{ held }] = group
      const seqs = group.map((one) => one.held.seq)
      // Not IN: the planner would compare every row with every partition.
      return `o.state = ${give(held.state, 'text')} AND o.destination = ${give(held.destination, 'text')}
    AND ${seqsSql(seqs, give(numberArray(seqs), 'bigint[]'))} AND o.partition = ANY(ARRAY(SELECT partition FROM fenced))`
    })
    return { sql: `WITH ${fencedSql(tables)},\n${deleteGroupsSql(tables.outbox, conditions)}`, parameters }
  }
  const places = [
    groups.map(([{ held }]) => held.state),
    groups.map(([{ held }]) => held.destination),
    numberArray(outcomes.map(({ held }) => held.seq)),
    numberArray(outcomes.map(({ held }) => held.partition)),
    numberArray(numbers),
  ]
  return { sql: settleSql(tables, retain), parameters: [...fence, ...places, ...resultColumns(outcomes)] }
}

/** `fenced`: of the partitions $2, those that the member $1, which lives, owns with the epochs $3. */
function fencedSql({ relays, partitions }: Tables): string {
  return `fenced AS MATERIALIZED (
  SELECT p.partition FROM ${partitions} AS p JOIN unnest($2::smallint[], $3::bigint[]) AS fence(partition, epoch) USING (partition, epoch)
  WHERE p.owner = $1::uuid AND EXISTS (SELECT FROM ${relays} AS r WHERE r.member = $1::uuid AND r.alive_until > clock_timestamp())
)`
}

/** $4 states and $5 destinations, each pair once; then for each outcome $6 the seq, $7 the partition, $8 the number of the pair, $9 the result, $10 the error, $11 milliseconds until the next attempt. */
function settleSql(tables: Tables, retain: boolean): string {
  const { outbox } = tables
  const place = `o.state = outcome.state AND o.destination = outcome.destination AND o.seq = outcome.seq`
  const update = `UPDATE ${outbox} AS o SET
    attempts = CASE outcome.result WHEN 'published' THEN o.attempts ELSE o.attempts + 1 END,
${outcomeChanges}
  FROM outcome
  WHERE ${retain ? '' : `outcome.result <> 'published' AND `}${place}
  RETURNING o.seq`
  const remove = `DELETE FROM ${outbox} AS o USING outcome
  WHERE outcome.result = 'published' AND ${place}
  RETURNING o.seq`
  return `WITH ${fencedSql(tables)},
outcome AS MATERIALIZED (
  SELECT given.*, ($4::text[])[pair] AS state, ($5::text[])[pair] AS destination
  FROM unnest($6::bigint[], $7::smallint[], $8::integer[], $9::text[], $10::text[], $11::float8[])
    AS given(seq, partition, pair, result, error, retry_after)
  WHERE given.partition IN (SELECT partition FROM fenced)
),
changed AS (${update})${retain ? '' : `,\nremoved AS (${remove})`}
${settledSql(retain ? ['changed'] : ['changed', 'removed'])}`
}
