import type { RunStatement } from '../../contract/driver.ts'
import type { Tables } from '../../contract/tables.ts'
import { partitionCount } from '../../records/outbox-row.ts'
import { lastSeqSql, recordColumns, writtenLeafSql } from './log-sql.ts'

type InTransaction = <T>(work: (run: RunStatement) => Promise<T>) => Promise<T>

/**
 * Finds out whether the log was restored from a dump, by the identity of the server and the database that it was written on, and by cursors from the
 * future: xids of another server mean nothing here. Then records
 * that may not be published yet are moved to the outbox table, and the log starts anew.
 */
export async function openLog(
  inTransaction: InTransaction,
  tables: Tables,
): Promise<{ readonly lastSeq: string; readonly restored: boolean }> {
  const { notes, outbox, log, cursors, taken } = tables
  const isOurs = async (run: RunStatement, identity: string) => {
    const { rows } = await run(`SELECT value, ${hasLaterSql(tables)} AS later FROM ${notes} WHERE kind = 'log' AND name = 'identity'`)
    return rows[0]?.['later'] === false && isSame(String(rows[0]['value']), identity)
  }
  const lastSeq = async (run: RunStatement) => String((await run(`SELECT ${lastSeqSql(outbox)}::text AS last_seq`)).rows[0]?.['last_seq'])
  const known = await inTransaction(async (run) => {
    const identity = await identityOf(run)
    await run(
      `INSERT INTO ${notes} (kind, name, value, written_at) VALUES ('log', 'identity', $1, clock_timestamp()) ON CONFLICT DO NOTHING`,
      [identity],
    )
    return (await isOurs(run, identity)) ? await lastSeq(run) : undefined
  })
  if (known !== undefined) return { lastSeq: known, restored: false }
  // In a transaction of its own, which locks before it reads: two relays that had read the cursors would wait for each other when they lock them.
  return await inTransaction(async (run) => {
    await run(`LOCK TABLE ${log}, ${cursors}, ${taken} IN ACCESS EXCLUSIVE MODE`)
    const identity = await identityOf(run)
    // Another relay may have been faster.
    const restored = !(await isOurs(run, identity))
    if (restored) await startAnew(run, tables, identity)
    return { lastSeq: await lastSeq(run), restored }
  })
}

/**
 * Whether a cursor has seen transactions that this server has not begun yet. Two new servers may have the same identity, if nothing but the number of the database is known: then
 * everything that is stored here would count as published.
 */
function hasLaterSql({ cursors }: Tables): string {
  return `EXISTS (SELECT FROM ${cursors} WHERE kind = 'd' AND pg_snapshot_xmax(snapshot) > pg_snapshot_xmax(pg_current_snapshot()))`
}

/** A role that may not ask for the server knows only the number of the database. */
function isSame(one: string, other: string): boolean {
  const [[server = '', database], [otherServer = '', otherDatabase]] = [one.split('/'), other.split('/')]
  return database === otherDatabase && (server === '' || otherServer === '' || server === otherServer)
}

/** Not every role may ask for the identity of the server; the number of the database differs after a restore, too, though not on every server. */
async function identityOf(run: RunStatement): Promise<string> {
  const { rows } = await run(`SELECT has_function_privilege('pg_control_system()', 'execute') AS may`)
  const server = rows[0]?.['may'] === true ? '(SELECT system_identifier::text FROM pg_control_system())' : `''`
  const found = await run(`SELECT concat(${server}, '/', (SELECT oid FROM pg_database WHERE datname = current_database())) AS identity`)
  return String(found.rows[0]?.['identity'])
}

/**
 * Records that were stored after the restore have a seq beyond the floor of every cursor, because sequences are restored. So have a few that were published just before the dump: they
 * are published again.
 */
async function startAnew(run: RunStatement, tables: Tables, identity: string): Promise<void> {
  const { outbox, log, cursors, taken, meta, notes } = tables
  const { rows } = await run(`SELECT ${lastSeqSql(outbox)}::text AS last_seq`)
  await run(`INSERT INTO ${outbox} (seq, state, ${recordColumns()}, available_at) OVERRIDING SYSTEM VALUE
SELECT l.seq, 'ready', ${recordColumns('l.')}, l.created_at
FROM ${log} AS l LEFT JOIN LATERAL (
  SELECT c.* FROM ${cursors} AS c WHERE c.kind = 'd' AND get_bit(c.partitions, l.partition) = 1 ORDER BY c.generation DESC LIMIT 1
) AS c ON true
WHERE NOT EXISTS (SELECT FROM ${taken} AS t WHERE t.seq = l.seq) AND (
  c.snapshot IS NULL OR l.seq = ANY(c.open) OR NOT (l.seq = ANY(c.done) OR (
    l.seq <= coalesce(c.until_floor, c.floor) AND (pg_visible_in_snapshot(l.xid, c.snapshot) OR coalesce(l.seq <= c.seq AND pg_visible_in_snapshot(l.xid, c.until), false))
  ))
)
ON CONFLICT DO NOTHING`)
  await run(`TRUNCATE ${log}, ${cursors}, ${taken}`)
  await run(
    `INSERT INTO ${cursors} (leaf, kind, partitions, snapshot, floor)
SELECT ${writtenLeafSql(meta)}, 'd', repeat('1', ${partitionCount})::bit(${partitionCount}), pg_current_snapshot(), $1::bigint`,
    [rows[0]?.['last_seq']],
  )
  await run(`UPDATE ${notes} SET value = $1, written_at = clock_timestamp() WHERE kind = 'log' AND name = 'identity'`, [identity])
}
