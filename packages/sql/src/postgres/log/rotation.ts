import type { RunStatement } from '../../contract/driver.ts'
import type { Tables } from '../../contract/tables.ts'
import { partitionCount } from '../../records/outbox-row.ts'
import { deepSqlStateOf } from '../errors.ts'
import { quoteLiteral } from '../sql-text.ts'

type InTransaction = <T>(work: (run: RunStatement) => Promise<T>) => Promise<T>

/** A leaf is left when it has more than this many bytes, or after this many milliseconds if it has records at all. */
export interface RotationOptions {
  /** Default: 64 MB; no limit with `keep`. */
  readonly maxBytes?: number | undefined
  /** Default: 10 minutes, or half of `keep` if that is longer. */
  readonly maxAge?: number | undefined
  /** Milliseconds for which published records are kept at least. Default: 0. */
  readonly keep?: number | undefined
}

/** Milliseconds that a truncation waits for a lock. Others who want to use the leaf wait behind it. */
const lockTimeout = 50

/**
 * Empties leaves that are not written and not needed any more, and then, if it is time, switches to the next one if that is empty. A transaction with an old snapshot may still append
 * to the leaf that was left: every leaf is read, and under the lock of a truncation no such transaction is open and the check sees all that were committed.
 */
export async function rotateLog(inTransaction: InTransaction, tables: Tables, options: RotationOptions = {}): Promise<void> {
  const { keep = 0 } = options
  for (const number of tables.leaves.keys()) await emptyLeaf(inTransaction, tables, number, keep)
  await inTransaction((run) => switchLeaf(run, tables, options))
}

async function emptyLeaf(inTransaction: InTransaction, tables: Tables, number: number, keep: number): Promise<void> {
  const leaf = tables.leaves[number]
  if (leaf === undefined) return
  const { log, cursors } = leaf
  const isFilled = `SELECT EXISTS (SELECT FROM ${log}) OR EXISTS (SELECT FROM ${cursors}) AS filled`
  const isKept = `SELECT coalesce((SELECT created_at FROM ${log} ORDER BY seq DESC LIMIT 1) > clock_timestamp() - ${keep} * interval '1 millisecond', false) AS kept`
  // The cursors of the written leaf have nowhere to go.
  const mayBeEmptied = async (run: RunStatement) =>
    isTrue(await run(isFilled), 'filled') &&
    (await writtenLeaf(run, tables)) !== number &&
    !isTrue(await run(isNeededSql(tables, log)), 'needed') &&
    !isTrue(await run(isKept), 'kept')
  // In a transaction of its own: two relays that have both read the leaf could not lock it.
  if (!(await inTransaction(mayBeEmptied))) return
  try {
    await inTransaction(async (run) => {
      await run(`SET LOCAL lock_timeout = ${lockTimeout}`)
      await run(`LOCK TABLE ${log}, ${cursors} IN ACCESS EXCLUSIVE MODE`)
      // Again, with a snapshot that was taken under the lock: another relay may have emptied the leaf, and even switched to it.
      if (!(await mayBeEmptied(run))) return
      await run(carryCursorsSql(tables, cursors))
      await run(`DELETE FROM ${tables.taken} AS t WHERE t.seq IN (SELECT l.seq FROM ${log} AS l)`)
      await run(`TRUNCATE ${log}, ${cursors}`)
    })
  } catch (error) {
    // Another transaction reads or writes the leaf: the next call tries again.
    if (deepSqlStateOf(error) !== '55P03') throw error
  }
}

async function writtenLeaf(run: RunStatement, { meta }: Tables): Promise<number> {
  const { rows } = await run(`SELECT version FROM ${meta} WHERE name = 'log'`)
  return Number(rows[0]?.['version'])
}

function isTrue({ rows }: Awaited<ReturnType<RunStatement>>, column: string): boolean {
  return rows[0]?.[column] === true
}

/** The last cursor of each partition: `p.partition` and the columns of `c`. */
function lastSql(cursors: string): string {
  return `generate_series(0, ${partitionCount - 1}) AS p(partition) LEFT JOIN LATERAL (
    SELECT c.* FROM ${cursors} AS c WHERE c.kind = 'd' AND get_bit(c.partitions, p.partition) = 1 ORDER BY c.generation DESC LIMIT 1
  ) AS c ON true`
}

/** Whether a row of the leaf is beyond the cursor of its partition, or open. What is done beyond it counts as needed, too. */
function isNeededSql({ cursors }: Tables, leaf: string): string {
  return `WITH last AS MATERIALIZED (
  SELECT array_agg(p.partition::smallint) AS partitions, c.snapshot::text::pg_snapshot AS snapshot, c.open
  FROM ${lastSql(cursors)} GROUP BY c.snapshot::text, c.open
)
SELECT coalesce(bool_or(
  CASE WHEN last.snapshot IS NULL THEN EXISTS (SELECT FROM ${leaf} AS l WHERE l.partition = ANY(last.partitions))
  ELSE EXISTS (SELECT FROM ${leaf} AS l WHERE l.xid >= pg_snapshot_xmax(last.snapshot) AND l.partition = ANY(last.partitions))
    OR EXISTS (SELECT FROM ${leaf} AS l WHERE l.xid = ANY(ARRAY(SELECT pg_snapshot_xip(last.snapshot))) AND l.partition = ANY(last.partitions))
    OR EXISTS (SELECT FROM ${leaf} AS l WHERE l.seq = ANY(last.open))
  END
), false) AS needed FROM last`
}

/** Copies the rows that count into the leaf that is written. They keep their generation: a relay may just have written a later one. */
function carryCursorsSql({ cursors, meta }: Tables, leaf: string): string {
  const columns = 'generation, kind, member, partitions, snapshot, floor, until, until_floor, seq, open, done, noted'
  return `WITH last AS MATERIALIZED (SELECT c.generation, c.noted FROM ${lastSql(cursors)})
INSERT INTO ${cursors} (leaf, ${columns})
SELECT (SELECT version::smallint FROM ${meta} WHERE name = 'log'), ${columns} FROM ${leaf}
WHERE CASE kind WHEN 'd' THEN generation IN (SELECT generation FROM last) ELSE generation >= (SELECT min(coalesce(noted, generation)) FROM last) END`
}

/** Only one relay switches at a time, and only into an empty leaf. */
async function switchLeaf(run: RunStatement, { meta, leaves }: Tables, options: RotationOptions): Promise<void> {
  // With two parts that were left, everything is kept long enough.
  const { keep = 0, maxBytes = keep > 0 ? Number.MAX_SAFE_INTEGER : 64 * 1024 * 1024, maxAge = Math.max(10 * 60_000, keep / 2) } = options
  const { rows } = await run(`SELECT version, changed_at <= clock_timestamp() - ${maxAge} * interval '1 millisecond' AS old
FROM ${meta} WHERE name = 'log' FOR UPDATE SKIP LOCKED`)
  const [turn] = rows
  if (turn === undefined) return
  const written = Number(turn['version'])
  const [current, next] = [leaves[written], leaves[(written + 1) % leaves.length]]
  if (current === undefined || next === undefined) return
  const due = `SELECT (pg_relation_size(${quoteLiteral(current.log)}) > ${turn['old'] === true ? 0 : maxBytes} OR pg_relation_size(${quoteLiteral(current.cursors)}) > ${maxBytes})
  AND NOT EXISTS (SELECT FROM ${next.log}) AND NOT EXISTS (SELECT FROM ${next.cursors}) AS due`
  if (!isTrue(await run(due), 'due')) return
  await run(`UPDATE ${meta} SET version = ${(written + 1) % leaves.length}, changed_at = clock_timestamp() WHERE name = 'log'`)
}
