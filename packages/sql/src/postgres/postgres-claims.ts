import type { ClaimedPlace } from '../claim-token.ts'
import type { Row } from '../driver.ts'
import type { ClaimStatements, StorePort } from '../store-dialect.ts'
import { claimSql } from './claim-statement.ts'
import { releaseSql, renewSql, settleSql } from './settle-statements.ts'

/** One statement each. */
export function postgresClaims({ driver, table, retain }: StorePort): ClaimStatements {
  const run = (sql: string, parameters: readonly unknown[]) => driver.run(driver.pool, sql, parameters)
  const renewing = renewSql(table)
  const releasing = releaseSql(table)
  const settling = settleSql(table, retain)
  return {
    async claim({ limit, lease, token, quota, destinations, except = [], retried }) {
      const sql = claimSql(table, { retried, named: destinations !== undefined })
      const parameters = [limit, lease, token, [...except], quota ?? null]
      const { rows } = await run(sql, destinations === undefined ? parameters : [...parameters, [...destinations]])
      return rows
    },

    async renew(places, lease) {
      const { rows } = await run(renewing, [...columnsOf(places), lease])
      return seqsOf(rows)
    },

    async release(places) {
      await run(releasing, columnsOf(places))
    },

    async settle(outcomes) {
      const { rows } = await run(settling, [
        ...columnsOf(outcomes),
        outcomes.map(({ outcome }) => outcome.result),
        outcomes.map(({ outcome }) => (outcome.result === 'published' ? null : outcome.error)),
        outcomes.map(({ outcome }) => (outcome.result === 'failed' ? outcome.retryAfter : null)),
      ])
      return seqsOf(rows)
    },
  }
}

function columnsOf(places: readonly ClaimedPlace[]): unknown[] {
  return [
    places.map(({ state }) => state),
    places.map(({ destination }) => destination),
    places.map(({ seq }) => seq),
    places.map(({ token }) => token),
  ]
}

function seqsOf(rows: readonly Row[]): ReadonlySet<string> {
  return new Set(rows.map((row) => String(row['seq'])))
}
