import type { Row } from '../driver.ts'
import { groupBy, joinParts, type SqlPart } from './sql-part.ts'

/** Where a row is. */
export interface RowKey {
  readonly state: string
  readonly destination: string
  readonly seq: string
}

/** The rows of these keys. Each is named by its whole key and found there; not by rows of values, which not every optimizer looks up. */
export function keysSql(keys: readonly RowKey[]): SqlPart {
  const groups = groupBy(keys, ({ state, destination }) => `${state}/${destination}`).map((group) => ({
    sql: `(o.state = ? AND o.destination = ? AND o.seq IN (${group.map(({ seq }) => seq).join(', ')}))`,
    parameters: [group[0].state, group[0].destination],
  }))
  const { sql, parameters } = joinParts(groups, ' OR ')
  return { sql: `(${sql})`, parameters }
}

/** The key of a row that `readRow` has read. Its seq is a number of the database's own. */
export function keyOf(row: Row): RowKey {
  return { state: String(row['state']), destination: String(row['destination']), seq: String(row['seq']) }
}
