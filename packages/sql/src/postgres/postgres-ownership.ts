import type { OwnershipPort, OwnershipStatements, ReadProgress } from '../ownership-statements.ts'
import { numberArray } from './array-literal.ts'
import { ownedClaimSql } from './owned-claim-statement.ts'
import { ownedSettlement } from './owned-settle-statement.ts'
import { plainClaimSql, plainPosition } from './plain-claim-statement.ts'
import { settledSeqs } from './row-groups.ts'

/** One statement each. */
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
      if (told === undefined) return { status: undefined, anyKeys: undefined, rows: [], progress: [] }
      const { progress, any_keys: anyKeys, free = 0, ...status } = JSON.parse(String(told['attributes'])) as Told
      return { status: { ...status, free }, anyKeys, rows: rows.filter((row) => row !== told), progress: (progress ?? []).map(progressOf) }
    },

    async settle(member, outcomes) {
      const { sql, parameters } = ownedSettlement(tables, retain, member, outcomes)
      return settledSeqs((await run(sql, parameters)).rows)
    },
  }
}

/** As the statement makes it. */
interface Told {
  readonly remaining: number
  readonly live: number
  readonly gone: number
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
