import type { Tables } from '../../contract/database-options.ts'
import type { OwnedOutcome, OwnershipPort, OwnershipStatements, ReadProgress } from '../../contract/store-dialect.ts'
import { readContents } from '../claims.ts'
import { deleteGroupsSql, groupRows, isDeletable, outcomeChanges, resultColumns, settledSeqs, settledSql } from '../settle.ts'
import { giveTo, numberArray } from '../sql-text.ts'
import { type OwnedClaimStatement, ownedClaimSql } from './owned-claim.ts'
import { plainClaimSql, plainPosition } from './plain-claim.ts'

/** One statement each; settling takes a second one where rows have moved. */
export function postgresOwnership({ driver, tables, retain }: OwnershipPort): OwnershipStatements {
  const { outbox, keep, relays, partitions, hands } = tables
  const run = (sql: string, parameters: readonly unknown[]) => driver.run(driver.pool, sql, parameters)
  const keeping = `SELECT owned, owned_epoch::text AS epoch, live FROM ${keep}($1::uuid, $2::float8, $3::boolean, $4::smallint[])`
  const leaving = `WITH gone AS (DELETE FROM ${relays} WHERE member = $1::uuid RETURNING member),
emptied AS (DELETE FROM ${hands} WHERE member IN (SELECT member FROM gone)),
counted AS (
  UPDATE ${outbox} AS o SET attempts = o.attempts + 1
  FROM gone CROSS JOIN unnest($2::text[], $3::text[], $4::bigint[], $5::integer[]) AS place(state, destination, seq, attempts)
  WHERE o.state = place.state AND o.destination = place.destination AND o.seq = place.seq AND o.attempts = place.attempts
)
UPDATE ${partitions} SET owner = NULL, epoch = epoch + 1 WHERE owner IN (SELECT member FROM gone)`
  return {
    async keep({ member, lease, joins, handOver }) {
      const { rows } = await run(keeping, [member, lease, joins, [...handOver]])
      if (rows.length === 0) return undefined
      const owned = rows.filter((row) => row['owned'] !== null)
      return {
        owned: new Map(owned.map((row) => [Number(row['owned']), String(row['epoch'])])),
        live: Number(rows[0]?.['live']),
      }
    },

    async leave(member, inHand) {
      await run(leaving, [
        member,
        inHand.map(({ state }) => state),
        inHand.map(({ destination }) => destination),
        numberArray(inHand.map(({ seq }) => seq)),
        numberArray(inHand.map(({ attempts }) => attempts)),
      ])
    },

    async claim(options) {
      const position = plainPosition(options)
      const { sql, parameters } = position === undefined ? ownedClaimSql(tables, options) : plainClaimSql(tables, options, position)
      const { rows } = await run(sql, parameters)
      // No row without it: the member's time was over.
      const told = rows.find((row) => row['seq'] === null)
      if (told === undefined) return { status: undefined, anyKeys: undefined, rows: [], cut: false, progress: [] }
      const { progress, any_keys: anyKeys, free = 0, cut, ...status } = JSON.parse(String(told['attributes'])) as Told
      return {
        status: { ...status, free },
        anyKeys,
        rows: rows.filter((row) => row !== told),
        cut,
        progress: (progress ?? []).map(progressOf),
      }
    },

    contents: (keys) => readContents(driver, outbox, keys),

    async settle(member, outcomes) {
      const settle = async (some: readonly OwnedOutcome[], byPlace: boolean): Promise<ReadonlySet<string>> => {
        if (some.length === 0) return new Set()
        const { sql, parameters } = ownedSettlement(tables, some, { retain, member, byPlace })
        return settledSeqs((await run(sql, parameters)).rows)
      }
      const settled = await settle(
        outcomes.filter(({ held }) => held.place !== undefined),
        true,
      )
      if (settled.size === outcomes.length) return settled
      // An operator has changed a row, or the table was rewritten: it is looked up by its key before it is called lost.
      const moved = outcomes.filter(({ held }) => !settled.has(held.seq))
      return new Set([...settled, ...(await settle(moved, false))])
    },
  }
}

/** As the statement makes it. */
interface Told {
  readonly remaining: number
  readonly live: number
  readonly gone: number
  readonly cut: boolean
  readonly free?: number | undefined
  readonly any_keys?: boolean | undefined
  readonly progress: readonly ToldProgress[] | null
}

interface ToldProgress {
  readonly destination: string
  readonly matches: number
  readonly read: string | null
  readonly more: boolean
  readonly partition: number | null
  readonly key: string | null
  readonly heads: number
  readonly all_keys: boolean
}

function progressOf({ read, partition, key, all_keys: allKeys, ...same }: ToldProgress): ReadProgress {
  return { ...same, read: read ?? undefined, key: partition === null || key === null ? undefined : { partition, key }, allKeys }
}

/**
 * Applies outcomes if their member lives and owns the partition with that epoch. Gives the seqs that were settled, as one text. One statement: what is
 * published is deleted, or kept with `retain`; the rest changes its state and has one attempt more. Outcomes come sorted by seq.
 *
 * With `byPlace` rows are found by where the claim has seen them. That takes no index and no statistics, with which the planner could be wrong; a row that has
 * moved since then is not found, and must be settled without it. Each is looked at: another one may have that place.
 */
function ownedSettlement(
  tables: Tables,
  outcomes: readonly OwnedOutcome[],
  { retain, member, byPlace }: { readonly retain: boolean; readonly member: string; readonly byPlace: boolean },
): OwnedClaimStatement {
  // Arrays of numbers are written by hand: drivers look at every element, and there are hundreds.
  const epochs = new Map(outcomes.map(({ held }) => [held.partition, held.epoch]))
  const fence = [member, numberArray([...epochs.keys()]), numberArray([...epochs.values()])]
  const { groups, numbers } = groupRows(outcomes, ({ held: { state, destination } }) => `${state} ${destination}`)
  if (byPlace && !retain && isDeletable(outcomes, groups)) {
    const parameters: unknown[] = [...fence]
    const give = giveTo(parameters)
    const conditions = groups.map((group) => {
      const [{ held }] = group
      const seqs = group.map((one) => one.held.seq)
      // Sums and joined texts keep the planner from looking up anything but the places.
      return `o.ctid = ANY(${give(placesOf(group), 'tid[]')}) AND o.seq + 0 = ANY(${give(numberArray(seqs), 'bigint[]')})
    AND o.state || '' = ${give(held.state, 'text')} AND o.destination || '' = ${give(held.destination, 'text')}
    AND o.partition = ANY(ARRAY(SELECT partition FROM fenced))`
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
  const found = byPlace ? [placesOf(outcomes)] : []
  return { sql: settleSql(tables, retain, byPlace), parameters: [...fence, ...places, ...resultColumns(outcomes), ...found] }
}

/** As an array; a place has a comma in it. */
function placesOf(outcomes: readonly OwnedOutcome[]): string {
  return `{${outcomes.map(({ held }) => `"${held.place ?? '(0,0)'}"`).join(',')}}`
}

/** `fenced`: of the partitions $2, those that the member $1, which lives, owns with the epochs $3. */
function fencedSql({ relays, partitions }: Tables): string {
  return `fenced AS MATERIALIZED (
  SELECT p.partition FROM ${partitions} AS p JOIN unnest($2::smallint[], $3::bigint[]) AS fence(partition, epoch) USING (partition, epoch)
  WHERE p.owner = $1::uuid AND EXISTS (SELECT FROM ${relays} AS r WHERE r.member = $1::uuid AND r.alive_until > clock_timestamp())
)`
}

/** $4 states and $5 destinations, each pair once; then for each outcome $6 the seq, $7 the partition, $8 the number of the pair, $9 the result, $10 the error, $11 milliseconds until the next attempt, and, to find it by that, $12 the place. */
function settleSql(tables: Tables, retain: boolean, byPlace: boolean): string {
  const { outbox } = tables
  const place = `${byPlace ? 'o.ctid = outcome.place AND ' : ''}o.state = outcome.state AND o.destination = outcome.destination AND o.seq = outcome.seq`
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
  FROM unnest($6::bigint[], $7::smallint[], $8::integer[], $9::text[], $10::text[], $11::float8[]${byPlace ? ', $12::tid[]' : ''})
    AS given(seq, partition, pair, result, error, retry_after${byPlace ? ', place' : ''})
  WHERE given.partition IN (SELECT partition FROM fenced)
),
changed AS (${update})${retain ? '' : `,\nremoved AS (${remove})`}
${settledSql(retain ? ['changed'] : ['changed', 'removed'])}`
}
