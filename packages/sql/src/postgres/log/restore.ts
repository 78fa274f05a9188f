import type { RunStatement } from '../../contract/driver.ts'
import type { LogFloor } from '../../contract/log-statements.ts'
import type { Tables } from '../../contract/tables.ts'
import { partitionCount } from '../../records/outbox-row.ts'
import { quoteLiteral } from '../sql-text.ts'
import { lastSeqSql, recordColumns, writtenLeafSql } from './log-sql.ts'

type InTransaction = <T>(work: (run: RunStatement) => Promise<T>) => Promise<T>

/**
 * Registers the member as a reader, and finds out whether the log was restored from a dump, by the identity of the server and the database that it was written on, and by cursors from the
 * future: xids of another server mean nothing here. Then records that may not be published yet are moved to the outbox table, and the log starts anew.
 */
export async function openLog(
  inTransaction: InTransaction,
  tables: Tables,
  member: string,
): Promise<{ readonly floor: LogFloor; readonly restored: boolean }> {
  const { notes, log, cursors, taken } = tables
  const isOurs = async (run: RunStatement, identity: string) => {
    const { rows } = await run(`SELECT value, ${hasLaterSql(tables)} AS later FROM ${notes} WHERE kind = 'log' AND name = 'identity'`)
    return rows[0]?.['later'] === false && isSame(String(rows[0]['value']), identity)
  }
  const known = await inTransaction(async (run) => {
    await register(run, tables, member)
    const identity = await identityOf(run)
    await run(
      `INSERT INTO ${notes} (kind, name, value, written_at) VALUES ('log', 'identity', $1, clock_timestamp()) ON CONFLICT DO NOTHING`,
      [identity],
    )
    return await isOurs(run, identity)
  })
  if (known) return { floor: await inTransaction((run) => readFloor(run, tables)), restored: false }
  // In a transaction of its own, which locks before it reads: two relays that had read the cursors would wait for each other when they lock them.
  const restored = await inTransaction(async (run) => {
    await run(`LOCK TABLE ${log}, ${cursors}, ${taken} IN ACCESS EXCLUSIVE MODE`)
    const identity = await identityOf(run)
    // Another relay may have been faster.
    const isRestored = !(await isOurs(run, identity))
    if (isRestored) await startAnew(run, tables, identity)
    return isRestored
  })
  return { floor: await inTransaction((run) => readFloor(run, tables)), restored }
}

/** Also removes readers that are not registered as members any more. Again if the outcome of the first time was unknown: nothing was learned before. */
async function register(run: RunStatement, { readers, relays }: Tables, member: string): Promise<void> {
  await run(`DELETE FROM ${readers} WHERE member IN (
  SELECT reader.member FROM ${readers} AS reader WHERE NOT EXISTS (SELECT FROM ${relays} AS r WHERE r.member = reader.member) FOR UPDATE SKIP LOCKED
)`)
  await run(`INSERT INTO ${readers} (member, place) VALUES ($1::uuid, ${quoteLiteral(readers)}::regclass::oid) ON CONFLICT DO NOTHING`, [
    member,
  ])
}

/** The transaction must not have an id yet, which it gets after the seq was read. */
async function readFloor(run: RunStatement, { outbox }: Tables): Promise<LogFloor> {
  const { rows } = await run(`SELECT ${lastSeqSql(outbox)}::text AS last_seq`)
  const after = await run('SELECT pg_current_xact_id()::text AS xid')
  return { seq: String(rows[0]?.['last_seq']), xid: String(after.rows[0]?.['xid']) }
}

/**
 * Whether a cursor has seen transactions that this server has not begun yet, or has a number that the sequence has not reached. Two new servers may have the same identity, if nothing but
 * the number of the database is known: then everything that is stored here would count as published. And somebody may have set the sequence back.
 */
function hasLaterSql({ cursors, outbox }: Tables): string {
  return `EXISTS (SELECT FROM ${cursors} WHERE kind = 'd' AND (pg_snapshot_xmax(snapshot) > pg_snapshot_xmax(pg_current_snapshot()) OR generation > ${lastSeqSql(outbox)}))`
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
 * Records that were stored after the restore have a seq beyond the floor of every cursor, because a dump has the value of the sequence. So have a few that were published just before the
 * dump: they are published again.
 *
 * Logical replication does not copy the value. If the sequence is behind the tables, each of its numbers may be that of a copied record, of a new one, or of both: all of these records are
 * moved, and get new numbers, in the order in which they were stored.
 */
async function startAnew(run: RunStatement, tables: Tables, identity: string): Promise<void> {
  const { outbox, log, cursors, taken, meta, notes } = tables
  const { rows } = await run(`SELECT ${lastSeqSql(outbox)}::text AS last_seq, greatest(
  (SELECT max(seq) FROM ${log}), (SELECT max(seq) FROM ${outbox}), (SELECT max(seq) FROM ${taken}),
  (SELECT max(greatest(generation, floor, until_floor)) FROM ${cursors}))::text AS highest`)
  const lastSeq = String(rows[0]?.['last_seq'])
  const highest = String(rows[0]?.['highest'] ?? '0')
  const isBehind = BigInt(lastSeq) < BigInt(highest)
  if (isBehind) await run(`SELECT setval(pg_get_serial_sequence(${quoteLiteral(outbox)}, 'seq'), $1::bigint)`, [highest])
  const unclear = isBehind ? 'l.seq <= $1::bigint' : 'false'
  const isTaken = `EXISTS (SELECT FROM ${taken} AS t WHERE t.seq = l.seq)${
    isBehind ? ` OR EXISTS (SELECT FROM ${outbox} AS o WHERE o.destination = l.destination AND o.seq = l.seq AND o.id = l.id)` : ''
  }`
  await run(
    `INSERT INTO ${outbox} (seq, state, ${recordColumns()}, available_at) OVERRIDING SYSTEM VALUE
SELECT ${isBehind ? `nextval(pg_get_serial_sequence(${quoteLiteral(outbox)}, 'seq'))` : 'l.seq'}, 'ready', ${recordColumns('l.')}, l.created_at
FROM (
  SELECT l.* FROM ${log} AS l LEFT JOIN LATERAL (
    SELECT c.* FROM ${cursors} AS c WHERE c.kind = 'd' AND get_bit(c.partitions, l.partition) = 1 ORDER BY c.generation DESC LIMIT 1
  ) AS c ON true
  WHERE ${unclear} OR NOT (${isTaken}) AND (
    c.snapshot IS NULL OR l.seq = ANY(c.open) OR NOT (l.seq = ANY(c.done) OR (
      l.seq <= coalesce(c.until_floor, c.floor) AND (pg_visible_in_snapshot(l.xid, c.snapshot) OR coalesce(l.seq <= c.seq AND pg_visible_in_snapshot(l.xid, c.until), false))
    ))
  )
  ORDER BY l.created_at, l.seq
) AS l
ON CONFLICT DO NOTHING`,
    isBehind ? [lastSeq] : [],
  )
  await run(`TRUNCATE ${log}, ${cursors}, ${taken}`)
  await run(`INSERT INTO ${cursors} (leaf, kind, partitions, snapshot, floor)
SELECT ${writtenLeafSql(meta)}, 'd', repeat('1', ${partitionCount})::bit(${partitionCount}), pg_current_snapshot(), ${lastSeqSql(outbox)}`)
  await run(`UPDATE ${notes} SET value = $1, written_at = clock_timestamp() WHERE kind = 'log' AND name = 'identity'`, [identity])
}
