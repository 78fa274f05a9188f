import type { OwnedOutcome, OwnershipStatements, ReadProgress } from '../../contract/ownership-statements.ts'
import type { OwnershipPort } from '../../contract/store-dialect.ts'
import type { Tables } from '../../contract/tables.ts'
import { settlesFailures } from '../../records/claimed-record.ts'
import { readContents } from '../claims.ts'
import {
  deleteGroupsSql,
  groupRows,
  isDeletable,
  outcomeChanges,
  resultColumns,
  resultsSql,
  type SettleOptions,
  settledSeqs,
  settledSql,
} from '../settle.ts'
import { bindTo, numberArray } from '../sql-text.ts'
import { type OwnedClaimStatement, ownedClaimSql } from './owned-claim.ts'
import { plainClaimSql, plainPosition } from './plain-claim.ts'
import { readKeysRead, readKeysSql, readKeysWalked, walkKeysSql } from './read-keys.ts'

/** One statement per call; settling takes a second one if rows have moved. */
export function postgresOwnership({ driver, tables, retain, keepsFailures }: OwnershipPort): OwnershipStatements {
  const { outbox, keep, relays, partitions, hands } = tables
  const run = (sql: string, parameters: readonly unknown[]) => driver.run(driver.pool, sql, parameters)
  const keeping = `SELECT owned, owned_epoch::text AS epoch, live FROM ${keep}($1::uuid, $2::float8, $3::boolean, $4::smallint[])`
  const leaving = `WITH gone AS (DELETE FROM ${relays} WHERE member = $1::uuid RETURNING member),
emptied AS (DELETE FROM ${hands} WHERE member IN (SELECT member FROM gone)),
counted AS (
  UPDATE ${outbox} AS o SET attempts = o.attempts + 1
  FROM gone CROSS JOIN unnest($2::text[], $3::text[], $4::bigint[], $5::integer[]) AS lost(state, destination, seq, attempts)
  WHERE o.state = lost.state AND o.destination = lost.destination AND o.seq = lost.seq AND o.attempts = lost.attempts
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

    async leave(member, inFlight) {
      await run(leaving, [
        member,
        inFlight.map(({ state }) => state),
        inFlight.map(({ destination }) => destination),
        numberArray(inFlight.map(({ seq }) => seq)),
        numberArray(inFlight.map(({ attempts }) => attempts)),
      ])
    },

    async claim(options) {
      const position = plainPosition(options)
      const { sql, parameters } = position === undefined ? ownedClaimSql(tables, options) : plainClaimSql(tables, options, position)
      const { rows } = await run(sql, parameters)
      // Without this row, the member's lease had expired.
      const report = rows.find((row) => row['seq'] === null)
      if (report === undefined) return { status: undefined, anyKeys: undefined, rows: [], cut: false, progress: [] }
      const { progress, any_keys: anyKeys, free = 0, cut, empty, ...status } = JSON.parse(String(report['attributes'])) as StatusReport
      return {
        status: { ...status, free },
        anyKeys,
        emptyKeys: (empty ?? []).flatMap((turn) => options.keys?.[turn - 1] ?? []),
        rows: rows.filter((row) => row !== report),
        cut,
        progress: (progress ?? []).map(progressOf),
      }
    },

    async readKeys(options) {
      const { sql, parameters } = readKeysSql(outbox, options)
      return (await run(sql, parameters)).rows.map(readKeysRead)
    },

    async walkKeys(options) {
      const { sql, parameters } = walkKeysSql(outbox, options)
      return (await run(sql, parameters)).rows.map(readKeysWalked)
    },

    contents: (keys) => readContents(driver, outbox, keys),

    async settle(member, outcomes) {
      const failures = await settlesFailures(outcomes, keepsFailures)
      const settle = async (some: readonly OwnedOutcome[], byLocation: boolean): Promise<ReadonlySet<string>> => {
        if (some.length === 0) return new Set()
        const { sql, parameters } = ownedSettlement(tables, some, { retain, failures, member, byLocation })
        return settledSeqs((await run(sql, parameters)).rows)
      }
      const settled = await settle(
        outcomes.filter(({ row }) => row.location !== undefined),
        true,
      )
      if (settled.size === outcomes.length) return settled
      // An operator has changed a row, or the table was rewritten: the row is looked up by key before it is reported as lost.
      const moved = outcomes.filter(({ row }) => !settled.has(row.seq))
      return new Set([...settled, ...(await settle(moved, false))])
    },
  }
}

/** The status as the statement builds it. */
interface StatusReport {
  readonly remaining: number
  readonly live: number
  readonly gone: number
  readonly cut: boolean
  readonly free?: number | undefined
  readonly any_keys?: boolean | undefined
  /** The numbers of visited keys without records to claim. */
  readonly empty?: readonly number[] | null | undefined
  readonly progress: readonly ReportedProgress[] | null
}

interface ReportedProgress {
  readonly destination: string
  readonly matches: number
  readonly read: string | null
  readonly more: boolean
}

function progressOf({ read, ...same }: ReportedProgress): ReadProgress {
  return { ...same, read: read ?? undefined, key: undefined, heads: 0, allKeys: true }
}

/**
 * Applies outcomes if their member is alive and owns the partition with that epoch. Returns the settled seqs as one string. One statement: published
 * rows are deleted, or kept with `retain`; the others change their state and get one more attempt. Outcomes must be sorted by seq.
 *
 * With `byLocation` rows are found by their ctid at the time of the claim. That needs no index and no statistics, with which the planner could be
 * wrong; a row that has moved since is not found, and must be settled by key. Each row is checked: another one may have taken its ctid.
 */
function ownedSettlement(tables: Tables, outcomes: readonly OwnedOutcome[], options: OwnedSettleOptions): OwnedClaimStatement {
  const { retain, member, byLocation } = options
  // Arrays of numbers are formatted here: drivers inspect every element, and there are hundreds.
  const epochs = new Map(outcomes.map(({ row }) => [row.partition, row.epoch]))
  const fence = [member, numberArray([...epochs.keys()]), numberArray([...epochs.values()])]
  const { groups, numbers } = groupRows(outcomes, ({ row: { state, destination } }) => `${state} ${destination}`)
  if (byLocation && !retain && isDeletable(outcomes, groups)) {
    const parameters: unknown[] = [...fence]
    const bind = bindTo(parameters)
    const conditions = groups.map((group) => {
      const [{ row }] = group
      const seqs = group.map((one) => one.row.seq)
      // Adding 0 and concatenating '' keep the planner from using anything but the ctids.
      return `o.ctid = ANY(${bind(locationsOf(group), 'tid[]')}) AND o.seq + 0 = ANY(${bind(numberArray(seqs), 'bigint[]')})
    AND o.state || '' = ${bind(row.state, 'text')} AND o.destination || '' = ${bind(row.destination, 'text')}
    AND o.partition = ANY(ARRAY(SELECT partition FROM fenced))`
    })
    return { sql: `WITH ${fencedSql(tables)},\n${deleteGroupsSql(tables.outbox, conditions)}`, parameters }
  }
  const keys = [
    groups.map(([{ row }]) => row.state),
    groups.map(([{ row }]) => row.destination),
    numberArray(outcomes.map(({ row }) => row.seq)),
    numberArray(outcomes.map(({ row }) => row.partition)),
    numberArray(numbers),
  ]
  const found = byLocation ? [locationsOf(outcomes)] : []
  return { sql: settleSql(tables, options), parameters: [...fence, ...keys, ...found, ...resultColumns(outcomes, options)] }
}

interface OwnedSettleOptions extends SettleOptions {
  readonly member: string
  readonly byLocation: boolean
}

/** As an array; a ctid contains a comma. */
function locationsOf(outcomes: readonly OwnedOutcome[]): string {
  return `{${outcomes.map(({ row }) => `"${row.location ?? '(0,0)'}"`).join(',')}}`
}

/** `fenced`: the partitions of $2 that the live member $1 owns with the epochs $3. */
function fencedSql({ relays, partitions }: Tables): string {
  return `fenced AS MATERIALIZED (
  SELECT p.partition FROM ${partitions} AS p JOIN unnest($2::smallint[], $3::bigint[]) AS fence(partition, epoch) USING (partition, epoch)
  WHERE p.owner = $1::uuid AND EXISTS (SELECT FROM ${relays} AS r WHERE r.member = $1::uuid AND r.alive_until > clock_timestamp())
)`
}

/**
 * $4 states and $5 destinations, each pair once; then for each outcome $6 the seq, $7 the partition, $8 the number of the pair, with `byLocation` $9
 * the ctid, and the columns of `resultColumns()`.
 */
function settleSql(tables: Tables, options: OwnedSettleOptions): string {
  const { outbox } = tables
  const { retain, byLocation } = options
  const { arrays, names } = resultsSql(byLocation ? 10 : 9, options)
  const found = `${byLocation ? 'o.ctid = outcome.location AND ' : ''}o.state = outcome.state AND o.destination = outcome.destination AND o.seq = outcome.seq`
  const update = `UPDATE ${outbox} AS o SET
    attempts = CASE outcome.result WHEN 'published' THEN o.attempts ELSE o.attempts + 1 END,
${outcomeChanges(options)}
  FROM outcome
  WHERE ${retain ? '' : `outcome.result <> 'published' AND `}${found}
  RETURNING o.seq`
  const remove = `DELETE FROM ${outbox} AS o USING outcome
  WHERE outcome.result = 'published' AND ${found}
  RETURNING o.seq`
  return `WITH ${fencedSql(tables)},
outcome AS MATERIALIZED (
  SELECT given.*, ($4::text[])[pair] AS state, ($5::text[])[pair] AS destination
  FROM unnest($6::bigint[], $7::smallint[], $8::integer[], ${byLocation ? '$9::tid[], ' : ''}${arrays})
    AS given(seq, partition, pair, ${byLocation ? 'location, ' : ''}${names})
  WHERE given.partition IN (SELECT partition FROM fenced)
),
changed AS (${update})${retain ? '' : `,\nremoved AS (${remove})`}
${settledSql(retain ? ['changed'] : ['changed', 'removed'])}`
}
