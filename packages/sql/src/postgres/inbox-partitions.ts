import { rootContext } from '@ackord/core'
import type { Driver, RunStatement } from '../contract/driver.ts'
import type { InboxPartitionStatements } from '../contract/store-dialect.ts'
import { deepSqlStateOf } from './errors.ts'
import { inboxTableSql } from './migrations.ts'
import { dollarQuote, quoteIdentifier, quoteLiteral } from './sql-text.ts'
import { transactionSettings } from './transaction-control.ts'

/**
 * The inbox as a ring of four partitions, which are written and emptied in turn. The rows of generation n are in partition n modulo 4: one generation is written, two
 * older ones are only read, and the fourth is empty or about to be. A trigger looks a new message up in the older ones, so that the statements of the inbox are the
 * same as without partitions.
 *
 *     current   written by new transactions          ─▶ ending, by a change of the sequence, which takes effect at once and in every snapshot
 *     ending    transactions may still write to it   ─▶ sealed, once the last of them has ended; until then, new messages are also inserted here
 *     sealed    only read                            ─▶ expired, two generations later, which is at least a window
 *     expired   not read any more                    ─▶ empty, once the last reader has ended
 *
 * Two transactions that may not see each other's rows never write to different partitions only: they write to the same generation, or to two subsequent ones of which
 * the younger transaction writes to both. So one of them waits for the other at a unique index, whatever their isolation and whatever the clock says.
 */
const partitionCount = 4

interface InboxRing {
  readonly partitions: readonly string[]
  /** A sequence: the current generation. */
  readonly current: string
  /** A table of the sealed generations, with the time since when nothing writes to them. */
  readonly sealed: string
  /** The trigger function. */
  readonly insert: string
  /** The partitioned table, while it is replaced. */
  readonly former: string
}

/** The names beside that of the inbox, which is quoted. */
function ringOf(inbox: string): InboxRing {
  const beside = (suffix: string) => inbox.replace(/"$/, `_${suffix}"`)
  return {
    partitions: Array.from({ length: partitionCount }, (_, part) => beside(String(part))),
    current: beside('current'),
    sealed: beside('sealed'),
    insert: beside('insert'),
    former: beside('former'),
  }
}

/** The partition of a generation. */
function partOf(generation: number): number {
  return generation % partitionCount
}

export const inboxPartitions: InboxPartitionStatements = {
  async exist(run, inbox) {
    const { rows } = await run(`SELECT relkind = 'p' AS found FROM pg_class WHERE oid = to_regclass(${quoteLiteral(inbox)})`)
    return rows[0]?.['found'] === true
  },

  /**
   * The existing table becomes the first generation, and is emptied a window later. Waits for all transactions that have written to it. The column with the time has
   * another name in partitions, so that the cleanup of an older release fails: it finds rows by their `ctid`, which is not unique in partitions.
   */
  create(inbox) {
    const { partitions, current, sealed, insert } = ringOf(inbox)
    const [first = ''] = partitions
    checkLength(current)
    return `LOCK TABLE ${inbox} IN ACCESS EXCLUSIVE MODE;
DO ${dollarQuote(`
DECLARE
  obsolete regclass;
BEGIN
  FOR obsolete IN
    SELECT i.indexrelid FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = ${quoteLiteral(inbox)}::regclass AND i.indnatts = 1 AND a.attname = 'received_at'
  LOOP
    EXECUTE format('DROP INDEX %s', obsolete);
  END LOOP;
END
`)};
ALTER TABLE ${inbox} RENAME TO ${unqualified(first)};
ALTER TABLE ${first} RENAME COLUMN received_at TO recorded_at;
ALTER TABLE ${first} ADD COLUMN part smallint NOT NULL DEFAULT 0;

CREATE SEQUENCE ${current};
SELECT setval(${quoteLiteral(current)}, 1);
CREATE TABLE ${sealed} (
  generation  bigint PRIMARY KEY,
  sealed_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO ${sealed} (generation) VALUES (0);

CREATE TABLE ${inbox} (
  consumer     text COLLATE "C" NOT NULL,
  source       text COLLATE "C" NOT NULL,
  id           text COLLATE "C" NOT NULL,
  recorded_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  part         smallint NOT NULL DEFAULT pg_sequence_last_value(${quoteLiteral(current)}) % ${partitionCount}
) PARTITION BY LIST (part);
ALTER SEQUENCE ${current} OWNED BY ${inbox}.part;
ALTER TABLE ${inbox} ATTACH PARTITION ${first} FOR VALUES IN (0);
${partitions
  .slice(1)
  .map(
    (partition, index) =>
      `CREATE TABLE ${partition} PARTITION OF ${inbox} (PRIMARY KEY (consumer, source, id)) FOR VALUES IN (${index + 1});`,
  )
  .join('\n')}

${insertFunctionSql(inbox)};
CREATE TRIGGER once BEFORE INSERT ON ${inbox} FOR EACH ROW WHEN (NEW.recorded_at <> '-infinity') EXECUTE FUNCTION ${insert}();

${copyPrivilegesSql(
  first,
  [inbox, ...partitions.slice(1), sealed],
  `
    IF granted.privilege = 'INSERT' THEN
      EXECUTE format('GRANT SELECT, INSERT ON %s TO %s', ${quoteLiteral(partitions.join(', '))}, granted.grantee);
      EXECUTE format('GRANT SELECT ON %s TO %s', ${quoteLiteral(`${sealed}, ${current}`)}, granted.grantee);
    ELSIF granted.privilege = 'DELETE' THEN
      EXECUTE format('GRANT TRUNCATE ON %s TO %s', ${quoteLiteral(partitions.join(', '))}, granted.grantee);
      EXECUTE format('GRANT INSERT, DELETE ON %s TO %s', ${quoteLiteral(sealed)}, granted.grantee);
      EXECUTE format('GRANT UPDATE ON %s TO %s', ${quoteLiteral(current)}, granted.grantee);
    END IF;`,
)}`
  },

  /** Copies the rows into one table. */
  remove(inbox) {
    const { sealed, insert, former } = ringOf(inbox)
    return `LOCK TABLE ${inbox} IN ACCESS EXCLUSIVE MODE;
ALTER TABLE ${inbox} RENAME TO ${unqualified(former)};
${inboxTableSql(inbox)}
INSERT INTO ${inbox} (consumer, source, id, received_at)
SELECT consumer, source, id, max(recorded_at) FROM ${former} WHERE recorded_at > '-infinity' GROUP BY consumer, source, id;
${copyPrivilegesSql(former, [inbox], '')}
DROP TABLE ${former}, ${sealed};
DROP FUNCTION ${insert}()`
  },
}

/**
 * Seals, empties and switches partitions, as far as that is due and no transaction is in the way; it never waits for one. Resolves to the number of rows in the emptied
 * partitions, by the server's statistics: counting them would read them.
 */
export async function rotateInbox(driver: Driver<unknown>, inbox: string, window: number): Promise<number> {
  let emptied = 0
  // A transaction each: the seal must be committed before the switch, which takes effect at once.
  for (const step of [seal, empty, switchPartition, seal]) {
    try {
      emptied += await driver.transaction(
        transactionSettings({ isolation: 'read committed' }),
        ({ run }) => step(run, inbox, window),
        rootContext().signal,
      )
    } catch (error) {
      if (deepSqlStateOf(error) !== '55P03') throw error
    }
  }
  return emptied
}

type Step = (run: RunStatement, inbox: string, window: number) => Promise<number>

/** The current generation and the last one that is sealed; `undefined` if another cleanup is at it. */
async function readState(run: RunStatement, inbox: string): Promise<{ readonly current: number; readonly last: number } | undefined> {
  const { current, sealed } = ringOf(inbox)
  if (!(await tryLock(run, inbox))) return undefined
  const { rows } = await run(`SELECT pg_sequence_last_value(${quoteLiteral(current)}) AS current, max(generation) AS last FROM ${sealed}`)
  const [row] = rows
  return { current: Number(row?.['current']), last: Number(row?.['last']) }
}

/**
 * Seals the generation before the current one, once no transaction writes to it. A sequence that is behind comes from a copy of the tables without it, such as logical
 * replication makes; until it is corrected, every insert is refused.
 */
const seal: Step = async (run, inbox) => {
  const { partitions, current, sealed } = ringOf(inbox)
  const state = await readState(run, inbox)
  if (state === undefined || state.last === state.current - 1) return 0
  if (state.last >= state.current) {
    await run(`SELECT setval(${quoteLiteral(current)}, ${state.last + 1})`)
    return 0
  }
  const ending = state.current - 1
  if (!(await tryLock(run, String(partitions[partOf(ending)])))) return 0
  await run(`INSERT INTO ${sealed} (generation) VALUES (${ending})`)
  await run(`DELETE FROM ${sealed} WHERE generation < ${ending - partitionCount}`)
  return 0
}

/** Empties the next partition. The transactions that read it before the last switch may still hold it. */
const empty: Step = async (run, inbox) => {
  const state = await readState(run, inbox)
  if (state === undefined) return 0
  const next = String(ringOf(inbox).partitions[partOf(state.current + 1)])
  const { rows } = await run(`SELECT pg_stat_get_live_tuples(${quoteLiteral(next)}::regclass) AS count FROM ${next} LIMIT 1`)
  const [row] = rows
  if (row === undefined) return 0
  await run(`LOCK TABLE ${next} IN ACCESS EXCLUSIVE MODE NOWAIT`)
  await run(`TRUNCATE ${next}`)
  return Math.max(Number(row['count']), 1)
}

/**
 * Switches to the next partition, if it is empty and two conditions hold. The second generation before the current one, which is not read from then on, was sealed a
 * window ago; and the current one has been written for half a window, so that the generations are of about the same length.
 */
const switchPartition: Step = async (run, inbox, window) => {
  const { partitions, current, sealed } = ringOf(inbox)
  const state = await readState(run, inbox)
  if (state === undefined || state.last !== state.current - 1) return 0
  const sealedFor = (milliseconds: string) => `sealed_at <= clock_timestamp() - ${milliseconds} * interval '1 millisecond'`
  await run(
    `SELECT setval(${quoteLiteral(current)}, ${state.current + 1})
WHERE NOT EXISTS (SELECT FROM ${partitions[partOf(state.current + 1)]})
  AND NOT EXISTS (SELECT FROM ${sealed} WHERE generation = ${state.current - 2} AND NOT ${sealedFor('$1::float8')})
  AND EXISTS (SELECT FROM ${sealed} WHERE generation = ${state.current - 1} AND ${sealedFor('$1::float8 / 2')})`,
    [window],
  )
  return 0
}

/** Whether nothing else holds the lock of a table. Released at the end of the transaction. */
async function tryLock(run: RunStatement, table: string): Promise<boolean> {
  const { rows } = await run(`SELECT pg_try_advisory_xact_lock(${lockSql(`${quoteLiteral(table)}::regclass::oid`)}) AS locked`)
  return rows[0]?.['locked'] === true
}

/**
 * Runs before each insert into the inbox. Returns no row for a known message.
 *
 * The lock says that a transaction writes to the generation. It is taken before the generation is read: a generation is sealed only while nothing holds its lock, so
 * what is read later is still true. What is sealed is read in the snapshot of the transaction, like the rows: a snapshot that sees a generation as sealed also sees
 * all of its rows. A copy in the generation before has no time: it is not looked up in turn, and operators do not see it.
 */
function insertFunctionSql(inbox: string): string {
  const { partitions, current, sealed, insert } = ringOf(inbox)
  const isNew = (partition: string) =>
    `SELECT FROM ${partition} AS i WHERE i.consumer = NEW.consumer AND i.source = NEW.source AND i.id = NEW.id`
  /** One branch per partition: the statement of a branch reads the two generations before, and does not lock the partition that is being emptied. */
  const branches = (sql: (before: number, second: number) => string) =>
    partitions.map((_, part) => `  WHEN ${part} THEN\n    ${sql(partOf(part + 3), partOf(part + 2))};`).join('\n')
  const lookUp = branches(
    (before, second) => `SELECT (SELECT max(s.generation) FROM ${sealed} AS s), EXISTS (
      ${isNew(String(partitions[before]))}
      UNION ALL ${isNew(String(partitions[second]))}
    ) INTO last_sealed, is_known`,
  )
  const copy = branches(
    (before) => `INSERT INTO ${partitions[before]} (consumer, source, id, recorded_at, part)
    VALUES (NEW.consumer, NEW.source, NEW.id, '-infinity', ${before}) ON CONFLICT DO NOTHING`,
  )
  return `CREATE FUNCTION ${insert}() RETURNS trigger LANGUAGE plpgsql AS ${dollarQuote(`
DECLARE
  current_generation  bigint;
  last_sealed         bigint;
  is_known            boolean;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(${lockSql('TG_RELID')});
  current_generation := pg_sequence_last_value(${quoteLiteral(current)});
  IF NEW.part <> current_generation % ${partitionCount} THEN
    RAISE EXCEPTION 'the inbox has switched to another partition' USING ERRCODE = 'serialization_failure';
  END IF;

  CASE NEW.part
${lookUp}
  END CASE;
  IF is_known THEN RETURN NULL; END IF;
  IF last_sealed = current_generation - 1 THEN RETURN NEW; END IF;

  IF last_sealed IS DISTINCT FROM current_generation - 2 THEN
    RAISE EXCEPTION 'the inbox has switched to another partition since the snapshot of this transaction' USING ERRCODE = 'serialization_failure';
  END IF;
  CASE NEW.part
${copy}
  END CASE;
  IF FOUND THEN RETURN NEW; END IF;
  RETURN NULL;
END
`)}`
}

/** Gives new tables the owner of an existing one, and the first of them its privileges. `more` runs for each of these. */
function copyPrivilegesSql(from: string, [to = '', ...others]: readonly string[], more: string): string {
  return `DO ${dollarQuote(`
DECLARE
  owner    text := (SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = ${quoteLiteral(from)}::regclass);
  granted  record;
BEGIN
${[to, ...others].map((table) => `  EXECUTE format('ALTER TABLE %s OWNER TO %s', ${quoteLiteral(table)}, owner);`).join('\n')}
  FOR granted IN
    SELECT a.privilege_type AS privilege, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee,
      CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS suffix
    FROM pg_class AS c CROSS JOIN aclexplode(c.relacl) AS a WHERE c.oid = ${quoteLiteral(from)}::regclass AND a.grantee <> c.relowner
  LOOP
    EXECUTE format('GRANT %s ON %s TO %s%s', granted.privilege, ${quoteLiteral(to)}, granted.grantee, granted.suffix);${more}
  END LOOP;
END
`)};`
}

/** An advisory lock that belongs to a table. */
function lockSql(oid: string): string {
  return `hashtextextended('ackord inbox', ${oid}::bigint)`
}

/** Without the schema. */
function unqualified(name: string): string {
  return name.replace(/^"(?:[^"]|"")*"\./, '')
}

/** Of the longest name: PostgreSQL truncates names without an error. */
function checkLength(name: string): void {
  quoteIdentifier('names.inbox', unqualified(name).slice(1, -1).replaceAll('""', '"'))
}
