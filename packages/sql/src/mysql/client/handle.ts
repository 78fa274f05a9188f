import type { QueryTracker } from '../../contract/query-tracker.ts'
import { refuseControl } from '../transaction-control.ts'
import type { MysqlQueryable } from './wire.ts'

/** Runs a call in its turn, in the transaction. */
export type Within = (sql: unknown, start: () => Promise<unknown>) => Promise<unknown>

/** The calls of a connection that send a statement: a string, or an object with `sql`, and values. */
export function trackedHandle(connection: MysqlQueryable, calls: readonly string[], tracker: QueryTracker, within: Within): MysqlQueryable {
  const handle: Record<string, unknown> = {}
  for (const call of calls) {
    handle[call] = function query(...given: unknown[]): Promise<unknown> {
      const [first] = given
      const sql = typeof first === 'object' && first !== null && 'sql' in first ? first.sql : first
      return tracker.watch(() => {
        refuseControl(sql, tracker)
        // The call exists: the driver's pool and connections have the same calls.
        return within(sql, () => Reflect.apply(connection[call as 'query'], connection, given))
      })
    }
  }
  // Every call of a queryable is included.
  return handle as unknown as MysqlQueryable
}
