import type { LogFloor, LogPosition, LogRange } from '../../contract/log-statements.ts'
import { type BindParameter, numberArray } from '../sql-text.ts'

/** Nothing: every transaction is later. */
export const beginning: LogPosition = { snapshot: '3:3:', floor: '0' }

/**
 * A snapshot as the server writes it: `xmin:xmax:xip,…`. Transactions in `xip` were running. Those from `xmax` on had not ended, but some may have begun: `xmax` is the successor of the
 * highest id of a transaction that had ended.
 */
function partsOf(snapshot: string): { readonly xmax: string; readonly running: readonly string[] } {
  const [, xmax = '3', running = ''] = snapshot.split(':')
  return { xmax, running: running === '' ? [] : running.split(',') }
}

/**
 * The floor of a snapshot. That of an earlier statement holds if the snapshot shows the end of its transaction `xid`: then `xmax` is greater than `xid`, and all transactions from `xmax`
 * on have taken their seqs after it. Otherwise the floor of an earlier snapshot, whose `xmax` is not greater.
 */
export function floorOf(snapshot: string, { seq, xid }: LogFloor, earlier: string): string {
  return BigInt(partsOf(snapshot).xmax) > BigInt(xid) ? seq : earlier
}

/** Whether the row `l` is part of a position. */
export function isWithinSql({ snapshot, range }: LogPosition, bind: BindParameter): string {
  const shown = `pg_visible_in_snapshot(l.xid, ${bind(snapshot, 'pg_snapshot')})`
  if (range === undefined) return shown
  return `(${shown} OR (l.seq <= ${bind(range.seq, 'bigint')} AND pg_visible_in_snapshot(l.xid, ${bind(range.until, 'pg_snapshot')})))`
}

export interface LogRowsOptions {
  readonly log: string
  readonly columns: string
  readonly after: LogPosition
  /** Only what this snapshot shows. If the position has a range, it is that of the range. */
  readonly until?: string | undefined
  /** Further conditions on `l`. */
  readonly conditions: readonly string[]
  /** A number of rows; the rows are ordered by seq. */
  readonly limit?: string | undefined
  readonly bind: BindParameter
}

/**
 * The rows after a position. Those of transactions with an id from `xmax` on are found by seq, from the floor on; those of the transactions that were running, by xid. Starting at the
 * oldest running transaction instead would read more and more while that one runs.
 */
export function rowsAfterSql({ log, columns, after, until, conditions, limit, bind }: LogRowsOptions): string {
  const { snapshot, floor, range } = after
  const { xmax, running } = partsOf(snapshot)
  const all = [...conditions, ...boundsOf(range, until, bind)]
  const from = range !== undefined && until !== undefined && BigInt(range.seq) > BigInt(floor) ? range.seq : floor
  const ordered = limit === undefined ? '' : ` ORDER BY l.seq LIMIT ${limit}`
  const select = (...first: string[]) => `SELECT ${columns} FROM ${log} AS l WHERE ${[...first, ...all].join(' AND ')}${ordered}`
  const fresh = select(`l.seq > ${bind(from, 'bigint')}`, `l.xid >= ${bind(xmax, 'xid8')}`)
  if (running.length === 0) return fresh
  const late = `SELECT late.* FROM unnest(${bind(numberArray(running), 'xid8[]')}) AS writer(xid)
      CROSS JOIN LATERAL (${select('l.xid = writer.xid')}) AS late`
  const both = `(${fresh})
    UNION ALL
    (${late})`
  return limit === undefined ? both : `SELECT l.* FROM (${both}) AS l${ordered}`
}

function boundsOf(range: LogRange | undefined, until: string | undefined, bind: BindParameter): readonly string[] {
  const shown = (snapshot: string) => `pg_visible_in_snapshot(l.xid, ${bind(snapshot, 'pg_snapshot')})`
  if (until !== undefined) return range === undefined ? [shown(until)] : [`l.seq > ${bind(range.seq, 'bigint')}`, shown(until)]
  // Records that were committed after `until` may have a lower seq.
  return range === undefined ? [] : [`(l.seq > ${bind(range.seq, 'bigint')} OR NOT ${shown(range.until)})`]
}
