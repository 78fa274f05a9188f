import type { Tables } from '../../contract/tables.ts'
import { partitionCount } from '../../records/outbox-row.ts'
import { dollarQuote, quoteLiteral } from '../sql-text.ts'

/**
 * The log. Its rows are never changed: a relay remembers by a snapshot which of them it has published, and a leaf is truncated when no relay needs it any more. `xid` comes before
 * `seq`, because defaults are computed in this order: a transaction has its xid before it takes a seq, so that a transaction that began after a snapshot has no seq that was taken
 * before it.
 *
 * Cursors are only inserted, too: a row that is updated in place becomes slow while another transaction holds an old snapshot.
 *
 *     kind d   everything up to the position has been published, or moved to the outbox table, except for `open`; and beyond it, `done`. The last row of a partition counts.
 *     kind r   an entry of the claim journal: the member has claimed the records `open`, or its read has moved the records `done` to the outbox table. The entries count that were
 *              written after the member's last row of kind d, or from the entry on that this row names in `noted`.
 *
 * A position is a snapshot, and optionally, within what the later snapshot `until` shows, a seq. A transaction that began after the snapshot has no seq up to its `floor`.
 */
export function logTablesSql({ outbox, log, cursors, taken, meta, leaves }: Tables): string {
  const each = (sql: (leaf: Tables['leaves'][number], number: number) => string) => leaves.map(sql).join('\n')
  return `
CREATE TABLE ${log} (
  leaf          smallint NOT NULL,
  xid           xid8 NOT NULL DEFAULT pg_current_xact_id(),
  seq           bigint NOT NULL,
  destination   text COLLATE "C" NOT NULL,
  id            text COLLATE "C" NOT NULL,
  type          text COLLATE "C" NOT NULL,
  content_type  text COLLATE "C",
  ordering_key  text COLLATE "C",
  partition     smallint NOT NULL,
  data          bytea NOT NULL,
  attributes    text COLLATE "C" NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
) PARTITION BY LIST (leaf);

CREATE TABLE ${cursors} (
  leaf         smallint NOT NULL,
  generation   bigint NOT NULL,
  kind         text COLLATE "C" NOT NULL,
  member       uuid,
  partitions   bit(${partitionCount}),
  snapshot     pg_snapshot,
  floor        bigint,
  until        pg_snapshot,
  until_floor  bigint,
  seq          bigint,
  open         bigint[] NOT NULL DEFAULT '{}',
  done         bigint[] NOT NULL DEFAULT '{}',
  noted        bigint
) PARTITION BY LIST (leaf);

DO ${dollarQuote(`
DECLARE
  numbers text := pg_get_serial_sequence(${quoteLiteral(outbox)}, 'seq');
BEGIN
  EXECUTE format('ALTER TABLE %s ALTER COLUMN seq SET DEFAULT nextval(%L)', ${quoteLiteral(log)}, numbers);
  EXECUTE format('ALTER TABLE %s ALTER COLUMN generation SET DEFAULT nextval(%L)', ${quoteLiteral(cursors)}, numbers);
END
`)};

${each(({ log: leaf }, number) => `CREATE TABLE ${leaf} PARTITION OF ${log} FOR VALUES IN (${number}) WITH (autovacuum_vacuum_insert_threshold = -1);`)}
CREATE INDEX ON ${log} (seq);
CREATE INDEX ON ${log} (xid, seq);
${each(({ cursors: leaf }, number) => `CREATE TABLE ${leaf} PARTITION OF ${cursors} FOR VALUES IN (${number}) WITH (autovacuum_vacuum_insert_threshold = -1);`)}
CREATE INDEX ON ${cursors} (kind, generation);

CREATE TABLE ${taken} (
  seq  bigint PRIMARY KEY
);

INSERT INTO ${meta} (name, version, oldest_reader) VALUES ('log', 0, 0);
`
}

/**
 * Version 7. A relay may have seen the end of a transaction whose commit a crash then undoes: reads and notes commit asynchronously, and a standby may be behind. After the recovery the
 * server gives the same ids to other transactions, which the relay would believe to have read. So each relay has a row in a table that is not logged: every recovery, the promotion of
 * a standby included, empties it, and then nothing that the relay remembers is used any more. `place` is the number of the table, which a dump does not preserve.
 *
 * What is stored needs no such check. A cursor is written after everything that it depends on: the commits that its snapshot shows, and the numbers below its floor. The log of the server
 * is replayed in this order, to some point: if the cursor is there, so is all of that, and the next id is beyond the `xmax` of its snapshot.
 *
 * The default of `seq` takes the transaction id first, whatever the order in which columns are computed. Cursors of earlier releases may have floors that are too high: zero is always right.
 */
export function logReadersSql({ outbox, log, cursors, readers }: Tables): string {
  return `
CREATE UNLOGGED TABLE ${readers} (
  member  uuid PRIMARY KEY,
  place   oid NOT NULL,
  reads   bigint NOT NULL DEFAULT 0,
  writes  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

DO ${dollarQuote(`
BEGIN
  EXECUTE format('ALTER TABLE %s ALTER COLUMN seq SET DEFAULT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval(%L) END',
    ${quoteLiteral(log)}, pg_get_serial_sequence(${quoteLiteral(outbox)}, 'seq'));
END
`)};

UPDATE ${cursors} SET floor = 0, until_floor = CASE WHEN until_floor IS NOT NULL THEN 0 END WHERE kind = 'd';
`
}
