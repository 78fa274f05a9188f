import type { ClaimStatements, StorePort } from '../store-dialect.ts'
import { claimSql } from './claim-statement.ts'
import { settledSeqs } from './row-groups.ts'
import { type ClaimStatement, releasing, renewal, settlement } from './settle-statements.ts'

/** One statement each. */
export function postgresClaims({ driver, table, retain }: StorePort): ClaimStatements {
  const run = (sql: string, parameters: readonly unknown[]) => driver.run(driver.pool, sql, parameters)
  const send = ({ sql, parameters }: ClaimStatement) => run(sql, parameters)
  return {
    async claim({ limit, lease, token, quota, destinations, except = [], retried }) {
      const sql = claimSql(table, { retried, named: destinations !== undefined })
      const parameters = [limit, lease, token, [...except], quota ?? null]
      const { rows } = await run(sql, destinations === undefined ? parameters : [...parameters, [...destinations]])
      return rows
    },

    async renew(places, lease) {
      const { rows } = await send(renewal(table, places, lease))
      return new Set(rows.map((row) => String(row['seq'])))
    },

    async release(places) {
      await send(releasing(table, places))
    },

    async settle(outcomes) {
      const { rows } = await send(settlement(table, retain, outcomes))
      return settledSeqs(rows)
    },
  }
}
