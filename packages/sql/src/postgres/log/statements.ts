import { rootContext } from '@ackord/core'
import type { RunStatement } from '../../contract/driver.ts'
import type { LastCursor, LogCursor, LogFence, LogMove, LogPosition, LogReadOptions, LogStatements } from '../../contract/log-statements.ts'
import type { OwnershipPort } from '../../contract/store-dialect.ts'
import type { Tables } from '../../contract/tables.ts'
import { lineOf } from '../../records/claimed-record.ts'
import { partitionCount } from '../../records/outbox-row.ts'
import type { Row } from '../../records/row.ts'
import { ageOf, type BindParameter, bindTo, instant, numberArray } from '../sql-text.ts'
import { transactionSettings } from '../transaction-control.ts'
import { lastSeqSql, recordColumns, writtenLeafSql } from './log-sql.ts'
import { beginning, floorOf, isWithinSql, rowsAfterSql } from './positions.ts'
import { openLog } from './restore.ts'
import { type RotationOptions, rotateLog } from './rotation.ts'

/** Milliseconds for which published records are kept with `retain` by default. */
const keepPublished = 24 * 60 * 60 * 1000

/** One statement per call, except for those that run in `inTransaction`. */
export function postgresLog({ driver, tables, retain }: OwnershipPort, rotation: RotationOptions = {}): LogStatements {
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
  // A statement after LOCK TABLE must see what was committed before.
  const settings = transactionSettings({ isolation: 'read committed' })
  const inTransaction = <T>(work: (run: RunStatement) => Promise<T>) =>
    driver.transaction(settings, (session) => work(session.run), rootContext().signal)
  return {
    open: (member) => openLog(inTransaction, tables, member),

    async cursors(partitions) {
      // READ COMMITTED: with a snapshot from before a truncation, it would see neither the truncated cursors nor where they were carried over to.
      const { rows } = await inTransaction((inside) => inside(lastCursorsSql(tables, '$1'), [numberArray(partitions)]))
      return rows.map(lastCursorOf)
    },

    async takeOver(fence, last) {
      const { sql, parameters } = takeOverSql(tables, fence, last)
      return generationOf(await run(sql, parameters))
    },

    async recordClaim(member, seqs) {
      const { cursors, taken, meta, relays, readers } = tables
      const sql = `WITH me AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true) FROM ${relays}
  WHERE member = $1::uuid AND alive_until > clock_timestamp() AND EXISTS (SELECT FROM ${readers} AS reader WHERE reader.member = $1::uuid AND ${isPresent})
  FOR KEY SHARE
),
recorded AS (
  INSERT INTO ${cursors} (leaf, kind, member, open) SELECT ${writtenLeafSql(meta)}, 'r', $1::uuid, $2::bigint[] FROM me RETURNING generation
)
SELECT generation::text AS entry, (SELECT array_agg(seq)::text FROM ${taken} WHERE seq = ANY($2::bigint[])) AS taken FROM recorded`
      const [row] = (await run(sql, [member, numberArray(seqs)])).rows
      return row && { entry: String(row['entry']), taken: numbersOf(row['taken']) }
    },

    async read(options) {
      const { sql, parameters } = readSql(tables, options)
      const { rows } = await run(sql, parameters)
      const report = rows.find((row) => row['seq'] === null)
      // Without this row, the member's lease had expired.
      if (report === undefined) {
        return {
          status: undefined,
          rows: [],
          position: options.position,
          complete: false,
          cut: false,
          moved: [],
          entry: undefined,
          floor: options.floor,
        }
      }
      const { remaining, live, gone, until, last, complete, cut, moved, entry, last_seq, xid } = JSON.parse(
        String(report['attributes']),
      ) as ReadReport
      return {
        status: { remaining, live, gone, free: 0 },
        rows: rows.filter((row) => row !== report),
        position: positionAfter(options, { until, last, complete }),
        complete,
        cut,
        moved: numbersOf(moved),
        entry: entry ?? undefined,
        floor: { seq: last_seq, xid },
      }
    },

    async contents(seqs) {
      const sql = `SELECT seq::text AS seq, data, attributes FROM ${tables.log} WHERE seq = ANY($1::bigint[])`
      return (await run(sql, [numberArray(seqs)])).rows
    },

    async write(fence, cursor, moves) {
      const { sql, parameters } = writeSql(tables, fence, cursor, moves)
      return generationOf(await run(sql, parameters))
    },

    async refuseLate(member, { reads, writes }) {
      // Each of them locks this row, and checks it again after it has waited for the lock.
      const sql = `UPDATE ${tables.readers} SET reads = greatest(reads, $2::bigint), writes = greatest(writes, $3::bigint) WHERE member = $1::uuid`
      await run(sql, [member, reads, writes])
    },

    movedSince: (member, after) =>
      inTransaction(async (inside) => {
        const moved = `SELECT coalesce(max(r.generation), $2::bigint)::text AS entry, array_agg(moved.seq)::text AS moved
FROM ${tables.cursors} AS r CROSS JOIN unnest(r.done) AS moved(seq) WHERE r.kind = 'r' AND r.generation > $2::bigint AND r.member = $1::uuid`
        const [row] = (await inside(moved, [member, after])).rows
        return { entry: String(row?.['entry']), moved: numbersOf(row?.['moved']) }
      }),

    lastGeneration: (partition) =>
      inTransaction(async (inside) => {
        const last = `SELECT c.generation::text AS last FROM ${tables.cursors} AS c WHERE c.kind = 'd' AND get_bit(c.partitions, $1::integer) = 1
ORDER BY c.generation DESC LIMIT 1`
        const { rows } = await inside(last, [partition])
        return String(rows[0]?.['last'] ?? '0')
      }),

    rotate: () => rotateLog(inTransaction, tables, { ...rotation, keep: rotation.keep ?? (retain ? keepPublished : 0) }),
  }
}

/**
 * Whether the row `reader` was written since the last recovery of the server: that empties an unlogged table. Not a row that was restored from a dump: then the table has another number.
 */
const isPresent = 'reader.place = reader.tableoid'

/** The generation of the cursor that a statement has written. */
function generationOf({ rows }: Awaited<ReturnType<RunStatement>>): string | undefined {
  const [row] = rows
  return row && String(row['written'])
}

interface LogStatement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/** The counts that the statement returns beside its records. */
interface ReadReport {
  readonly remaining: number
  readonly live: number
  readonly gone: number
  readonly until: string
  readonly last: string | null
  readonly complete: boolean
  readonly cut: boolean
  readonly moved: string | null
  readonly entry: string | null
  readonly last_seq: string
  readonly xid: string
}

function positionAfter(
  { position, until: target, floor }: LogReadOptions,
  { until, last, complete }: Pick<ReadReport, 'until' | 'last' | 'complete'>,
): LogPosition {
  const { range } = position
  const untilFloor = range?.floor ?? target?.floor ?? floorOf(until, floor, position.floor)
  if (complete) return { snapshot: until, floor: untilFloor }
  return { ...position, range: { until, floor: untilFloor, seq: last ?? range?.seq ?? '0' } }
}

/**
 * Reads a chunk, and moves the records that cannot be claimed, which the claim journal records: they must not be read again. `taken_seqs` is evaluated before `me` locks a row, for which
 * the statement gets its transaction id: the lock is taken on rows that were joined before.
 */
function readSql(tables: Tables, options: LogReadOptions): LogStatement {
  const { outbox, log, relays, readers, cursors, taken, meta } = tables
  const { position, except, behindParked, maxBytes } = options
  const until = position.range?.until ?? options.until?.snapshot
  const partitions = [...options.epochs.keys()]
  const parameters: unknown[] = []
  const bind = bindTo(parameters)
  const member = bind(options.member, 'uuid')
  const limit = bind(options.limit, 'integer')
  const rows = rowsAfterSql({
    log,
    columns: `l.seq, ${recordColumns('l.')}`,
    after: position,
    until,
    conditions: [
      ...(options.done.length === 0 ? [] : [`NOT l.seq = ANY(${bind(numberArray(options.done), 'bigint[]')})`]),
      ...(partitions.length === partitionCount ? [] : [`l.partition = ANY(${bind(numberArray(partitions), 'smallint[]')})`]),
      'EXISTS (SELECT FROM me)',
    ],
    limit,
    bind,
  })
  const ofKey =
    'o.destination = l.destination AND o.partition = l.partition AND o.ordering_key = l.ordering_key AND o.ordering_key IS NOT NULL'
  const moves = [
    ...(except.length > 0 ? [`l.destination = ANY(${bind([...except], 'text[]')})`] : []),
    `l.ordering_key IS NOT NULL AND EXISTS (SELECT FROM ${outbox} AS o WHERE ${ofKey} AND o.state IN ('ready', 'waiting'))`,
    ...(behindParked === 'given'
      ? []
      : [`l.ordering_key IS NOT NULL AND EXISTS (SELECT FROM ${outbox} AS o WHERE ${ofKey} AND o.state = 'parked')`]),
  ]
  const sized = `SELECT l.*, row_number() OVER turns AS n, sum(octet_length(l.data)::float8 + octet_length(l.attributes)) OVER turns AS bytes
  FROM chunk AS l WINDOW turns AS (ORDER BY l.seq ROWS UNBOUNDED PRECEDING)`
  const fits = (max: number, before = bind(options.spent, 'float8')) =>
    `${before} + bytes <= ${bind(max, 'float8')} OR (n = 1 AND ${before} = 0)`
  const fitting = maxBytes === undefined ? 'SELECT * FROM chunk' : `SELECT * FROM (${sized}) AS sized WHERE ${fits(maxBytes)}`
  const data = maxBytes === undefined ? 'l.data' : `CASE WHEN octet_length(l.data) > ${bind(maxBytes, 'float8')} THEN NULL ELSE l.data END`
  const sql = `WITH taken_seqs AS MATERIALIZED (SELECT ${lastSeqSql(outbox)} AS last),
me AS MATERIALIZED (
  SELECT (extract(epoch FROM r.alive_until - clock_timestamp()) * 1000)::float8 AS remaining, taken_seqs.last AS last_seq, set_config('synchronous_commit', 'off', true)
  FROM taken_seqs CROSS JOIN ${relays} AS r JOIN ${readers} AS reader USING (member)
  WHERE r.member = ${member} AND r.alive_until > clock_timestamp() AND ${isPresent} AND reader.reads <= ${bind(options.turn, 'bigint')}
    AND EXISTS (SELECT FROM ${ownedSql(tables, options, bind)})
  FOR KEY SHARE OF r FOR SHARE OF reader
),
chunk AS MATERIALIZED (${rows}),
fitting AS MATERIALIZED (${fitting}),
sorted AS MATERIALIZED (SELECT l.*, ${moves.map((one) => `(${one})`).join(' OR ')} AS moves, EXISTS (SELECT FROM ${taken} AS t WHERE t.seq = l.seq) AS taken FROM fitting AS l),
moved AS (
  INSERT INTO ${outbox} (seq, state, ${recordColumns()}, available_at) OVERRIDING SYSTEM VALUE
  SELECT l.seq, 'ready', ${recordColumns('l.')}, l.created_at FROM sorted AS l WHERE l.moves AND NOT l.taken
  ON CONFLICT DO NOTHING
),
counted AS MATERIALIZED (
  SELECT (SELECT count(*) FROM chunk) AS read, count(*) AS fit, max(seq) AS last, array_agg(seq) FILTER (WHERE moves AND NOT taken) AS moved FROM sorted
),
ended AS MATERIALIZED (
  SELECT counted.*, read < ${limit} AND fit = read AS complete, ${until === undefined ? 'pg_current_snapshot()' : bind(until, 'pg_snapshot')} AS until FROM counted
),
recorded AS (
  INSERT INTO ${cursors} (leaf, kind, member, done) SELECT ${writtenLeafSql(meta)}, 'r', ${member}, moved FROM ended WHERE moved IS NOT NULL
  RETURNING generation
)
SELECT NULL::text AS seq, NULL::text AS state, NULL::text AS destination, NULL::bytea AS data,
  json_build_object(
    'remaining', me.remaining,
    'live', (SELECT count(*) FROM ${relays} WHERE alive_until > clock_timestamp()),
    'gone', (SELECT count(*) FROM ${relays} WHERE alive_until <= clock_timestamp()),
    'until', ended.until::text, 'last', ended.last::text, 'complete', ended.complete, 'cut', ended.fit < ended.read, 'moved', ended.moved::text,
    'entry', (SELECT generation::text FROM recorded),
    'last_seq', me.last_seq::text, 'xid', pg_current_xact_id()::text
  )::text AS attributes,
  NULL::integer AS attempts, NULL::float8 AS created_at, NULL::float8 AS age, NULL::smallint AS partition, NULL::text AS ordering_key
FROM me CROSS JOIN ended
UNION ALL
SELECT l.seq::text, 'log', l.destination, ${data}, l.attributes, 0, ${instant('l.created_at')}, ${ageOf('l.created_at')}, l.partition, l.ordering_key
FROM sorted AS l WHERE NOT l.moves AND NOT l.taken`
  return { sql, parameters }
}

/** One row if the member owns all of these partitions with these epochs, otherwise none. */
function ownedSql({ partitions }: Tables, { member, epochs }: Pick<LogFence, 'member' | 'epochs'>, bind: BindParameter): string {
  const columns = [bind(numberArray([...epochs.keys()]), 'smallint[]'), bind(numberArray([...epochs.values()]), 'bigint[]')]
  return `(
    SELECT FROM ${partitions} AS p JOIN unnest(${columns.join(', ')}) AS fence(partition, epoch) USING (partition, epoch)
    WHERE p.owner = ${bind(member, 'uuid')} HAVING count(*) = ${epochs.size}
  ) AS owned`
}

/**
 * `fenced`: one row if the change may be made, otherwise none. The lock keeps the member registered until the commit: only then may others take its partitions over, and their statements
 * see this one. Its lease does not matter: while it is registered, no other member has taken anything over.
 */
function fencedSql(tables: Tables, fence: LogFence, bind: BindParameter): string {
  const { relays, readers, cursors } = tables
  const [partition = 0] = fence.epochs.keys()
  return `me AS MATERIALIZED (
  SELECT FROM ${relays} AS r JOIN ${readers} AS reader USING (member)
  WHERE r.member = ${bind(fence.member, 'uuid')} AND ${isPresent} AND reader.writes <= ${bind(fence.turn, 'bigint')}
  FOR KEY SHARE OF r FOR SHARE OF reader
),
fenced AS MATERIALIZED (
  SELECT FROM me CROSS JOIN ${ownedSql(tables, fence, bind)}
  WHERE NOT EXISTS (
    SELECT FROM ${cursors} AS c WHERE c.kind = 'd' AND c.generation > ${bind(fence.generation, 'bigint')} AND get_bit(c.partitions, ${bind(partition, 'integer')}) = 1
  )
)`
}

function writeSql(tables: Tables, fence: LogFence, cursor: LogCursor, moves: readonly LogMove[]): LogStatement {
  const { outbox, log, taken } = tables
  const parameters: unknown[] = []
  const bind = bindTo(parameters)
  const parts = [fencedSql(tables, fence, bind)]
  if (moves.length > 0) {
    const failure = (read: (outcome: NonNullable<LogMove['outcome']>) => unknown) =>
      moves.map(({ outcome }) => (outcome === undefined ? null : (read(outcome) ?? null)))
    const columns = [
      bind(numberArray(moves.map(({ seq }) => seq)), 'bigint[]'),
      bind(
        moves.map(({ outcome }) => outcome?.result ?? 'ready'),
        'text[]',
      ),
      bind(numberArray(moves.map(({ attempts }) => attempts)), 'integer[]'),
      bind(
        failure((outcome) => (outcome.result === 'failed' ? outcome.retryAfter : null)),
        'float8[]',
      ),
      bind(
        failure(({ error }) => error),
        'text[]',
      ),
      bind(
        failure(({ cause }) => cause),
        'text[]',
      ),
      bind(
        failure(({ error }) => lineOf(error)),
        'text[]',
      ),
    ]
    parts.push(`moved AS (
  INSERT INTO ${outbox} (seq, state, ${recordColumns()}, attempts, available_at, last_error, cause, history, parked_at) OVERRIDING SYSTEM VALUE
  SELECT l.seq, CASE move.result WHEN 'failed' THEN 'waiting' ELSE move.result END, ${recordColumns('l.')}, move.attempts,
    CASE move.result WHEN 'failed' THEN clock_timestamp() + move.retry_after * interval '1 millisecond' ELSE l.created_at END,
    move.error, move.cause, concat((${instant('clock_timestamp()')})::bigint, ' ' || move.line), CASE move.result WHEN 'parked' THEN clock_timestamp() END
  FROM fenced CROSS JOIN unnest(${columns.join(', ')}) AS move(seq, result, attempts, retry_after, error, cause, line) JOIN ${log} AS l ON l.seq = move.seq
  WHERE NOT EXISTS (SELECT FROM ${taken} AS t WHERE t.seq = l.seq)
  ON CONFLICT DO NOTHING
)`)
  }
  parts.push(`written AS (${insertCursorSql(tables, fence, cursor, bind)})`)
  return { sql: `WITH ${parts.join(',\n')}\nSELECT generation::text AS written FROM written`, parameters }
}

/** Needs `fenced`. */
function insertCursorSql(
  { cursors, meta }: Tables,
  { member, epochs }: Pick<LogFence, 'member' | 'epochs'>,
  { position, open, done, firstEntry }: LogCursor,
  bind: BindParameter,
): string {
  const { snapshot, floor, range } = position
  return `INSERT INTO ${cursors} (leaf, kind, partitions, snapshot, floor, until, until_floor, seq, open, done, noted, member)
  SELECT ${writtenLeafSql(meta)}, 'd', ${bind(bitsOf([...epochs.keys()]), `bit(${partitionCount})`)}, ${bind(snapshot, 'pg_snapshot')}, ${bind(floor, 'bigint')},
    ${bind(range?.until ?? null, 'pg_snapshot')}, ${bind(range?.floor ?? null, 'bigint')}, ${bind(range?.seq ?? null, 'bigint')},
    ${bind(numberArray(open), 'bigint[]')}, ${bind(numberArray(done), 'bigint[]')}, ${bind(firstEntry ?? null, 'bigint')}, ${bind(member, 'uuid')}
  FROM fenced RETURNING generation`
}

/** Moves the records that were claimed and are not done, and those that are open. */
function takeOverSql(tables: Tables, fence: LogFence, { partitions, cursor, claimed }: LastCursor): LogStatement {
  const { outbox, log, taken } = tables
  const { position, open, done } = cursor
  const parameters: unknown[] = []
  const bind = bindTo(parameters)
  const claimedSeqs = bind(numberArray(claimed), 'bigint[]')
  const openSeqs = bind(numberArray(open), 'bigint[]')
  const sql = `WITH ${fencedSql(tables, fence, bind)},
moved AS (
  INSERT INTO ${outbox} (seq, state, ${recordColumns()}, attempts, available_at) OVERRIDING SYSTEM VALUE
  SELECT l.seq, 'ready', ${recordColumns('l.')}, (l.seq = ANY(${claimedSeqs}))::integer, l.created_at FROM fenced CROSS JOIN ${log} AS l
  WHERE l.seq = ANY(${claimedSeqs} || ${openSeqs}) AND l.partition = ANY(${bind(numberArray(partitions), 'smallint[]')})
    AND (l.seq = ANY(${openSeqs}) OR NOT (${isWithinSql(position, bind)} OR l.seq = ANY(${bind(numberArray(done), 'bigint[]')})))
    AND NOT EXISTS (SELECT FROM ${taken} AS t WHERE t.seq = l.seq)
  ON CONFLICT DO NOTHING
),
written AS (${insertCursorSql(tables, fence, { position, open: [], done: [...done, ...claimed], firstEntry: undefined }, bind)})
SELECT generation::text AS written FROM written`
  return { sql, parameters }
}

/**
 * The last cursors of partitions, an array: partitions that share a cursor together. The records that their member has claimed since then, or since the entry that the cursor names, may be in flight. Partitions
 * without a cursor have nulls.
 */
function lastCursorsSql({ cursors }: Tables, partitions: string): string {
  const entries = `(SELECT open, done FROM ${cursors} WHERE kind = 'r' AND generation >= coalesce(d.noted, d.generation) AND member = d.member) AS r`
  return `SELECT d.partitions::text AS partitions, d.generation::text AS generation, d.snapshot::text AS snapshot, d.floor::text AS floor, d.until::text AS until, d.until_floor::text AS until_floor,
  d.seq::text AS seq, d.open::text AS open, d.done::text AS done, since.claimed::text AS claimed, since.moved::text AS moved
FROM (
  SELECT array_agg(p.partition) AS partitions, c.generation, c.snapshot::text AS snapshot, c.floor, c.until::text AS until, c.until_floor, c.seq, c.open, c.done, c.noted, c.member
  FROM unnest(${partitions}::smallint[]) AS p(partition) LEFT JOIN LATERAL (
    SELECT c.* FROM ${cursors} AS c WHERE c.kind = 'd' AND get_bit(c.partitions, p.partition) = 1 ORDER BY c.generation DESC LIMIT 1
  ) AS c ON true
  GROUP BY c.generation, c.snapshot::text, c.floor, c.until::text, c.until_floor, c.seq, c.open, c.done, c.noted, c.member
) AS d LEFT JOIN LATERAL (
  SELECT array_agg(r.seq) FILTER (WHERE r.claimed) AS claimed, array_agg(r.seq) FILTER (WHERE NOT r.claimed) AS moved FROM (
    SELECT seq, true AS claimed FROM ${entries} CROSS JOIN unnest(r.open) AS seq
    UNION ALL
    SELECT seq, false FROM ${entries} CROSS JOIN unnest(r.done) AS seq
  ) AS r
) AS since ON true`
}

function lastCursorOf(row: Row): LastCursor {
  return {
    partitions: numbersOf(row['partitions']).map(Number),
    generation: String(row['generation'] ?? '0'),
    cursor: {
      position: positionOf(row),
      open: numbersOf(row['open']),
      done: [...numbersOf(row['done']), ...numbersOf(row['moved'])],
      firstEntry: undefined,
    },
    claimed: numbersOf(row['claimed']),
  }
}

function positionOf(row: Row): LogPosition {
  const text = (column: string) => {
    const value = row[column]
    return value === null || value === undefined ? undefined : String(value)
  }
  const [snapshot, floor, until, untilFloor, seq] = [text('snapshot'), text('floor'), text('until'), text('until_floor'), text('seq')]
  if (snapshot === undefined || floor === undefined) return beginning
  if (until === undefined || untilFloor === undefined || seq === undefined) return { snapshot, floor }
  return { snapshot, floor, range: { until, floor: untilFloor, seq } }
}

/** An array of numbers as text. */
function numbersOf(value: unknown): readonly string[] {
  const text = typeof value === 'string' ? value.slice(1, -1) : ''
  return text === '' ? [] : text.split(',')
}

/** One bit per partition, the first one first. */
function bitsOf(partitions: readonly number[]): string {
  const bits = new Array<string>(partitionCount).fill('0')
  for (const partition of partitions) bits[partition] = '1'
  return bits.join('')
}
