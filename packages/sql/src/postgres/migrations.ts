import type { Migration } from '../contract/store-dialect.ts'
import type { Tables } from '../contract/tables.ts'
import { partitionCount } from '../records/outbox-row.ts'
import { logReadersSql, logTablesSql } from './log/tables.ts'
import { dollarQuote, quoteLiteral } from './sql-text.ts'
import { appendFunctionSql, keepFunctionSql } from './stored-functions.ts'

/**
 * The outbox. States and transitions, enforced by the checks:
 *
 *     ready     claimable unless leased        ─▶ waiting, parked, published, or deleted
 *     waiting   claimable once available_at    ─▶ the same; delayed, or backing off after a failure
 *     parked    needs an operator              ─▶ ready, or deleted
 *     published only with `retain`             ─▶ deleted
 *
 * A lease is not a state: its columns are in no index, so that claiming is a HOT update, for which the fill factor leaves room. The key starts with
 * state and destination, and no index has seq alone, because the planner would use it and scan a stalled destination. The check is a function,
 * because the server parses the text of a check expression anew for every statement, which was more than half of an insert. COLLATE "C" compares
 * bytes: no two ids are treated as equal, and no update of the system's collations corrupts an index.
 */
export const migrations: readonly Migration[] = [
  {
    version: 1,
    oldestReader: 1,
    sql: ({ inbox, outbox, append, valid }) => `
${inboxTableSql(inbox)}

CREATE FUNCTION ${valid}(
  state text, attempts integer, lease_token uuid, lease_until timestamptz, parked_at timestamptz, published_at timestamptz
) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $ackord$
BEGIN
  RETURN attempts >= 0 AND (lease_token IS NULL) = (lease_until IS NULL) AND CASE state
    WHEN 'ready' THEN parked_at IS NULL AND published_at IS NULL
    WHEN 'waiting' THEN parked_at IS NULL AND published_at IS NULL
    WHEN 'parked' THEN parked_at IS NOT NULL AND published_at IS NULL AND lease_token IS NULL
    WHEN 'published' THEN published_at IS NOT NULL AND parked_at IS NULL AND lease_token IS NULL
    ELSE false
  END;
END
$ackord$;

CREATE TABLE ${outbox} (
  seq           bigint GENERATED ALWAYS AS IDENTITY,
  state         text COLLATE "C" NOT NULL,
  destination   text COLLATE "C" NOT NULL,
  id            text COLLATE "C" NOT NULL,
  type          text COLLATE "C" NOT NULL,
  content_type  text COLLATE "C",
  ordering_key  text COLLATE "C",
  partition     smallint NOT NULL,
  data          bytea NOT NULL,
  attributes    text COLLATE "C" NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  available_at  timestamptz NOT NULL,
  attempts      integer NOT NULL DEFAULT 0,
  lease_token   uuid,
  lease_until   timestamptz,
  last_error    text,
  published_at  timestamptz,
  parked_at     timestamptz,
  PRIMARY KEY (state, destination, seq),
  CHECK (${valid}(state, attempts, lease_token, lease_until, parked_at, published_at))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
CREATE INDEX ON ${outbox} (destination, available_at, seq) WHERE state = 'waiting';
CREATE INDEX ON ${outbox} (published_at) WHERE state = 'published';

${appendFunctionSql(append, outbox, { locks: false })};
`,
  },
  {
    // Order per key. The first index has the heads of the keys, and no records without a key; the others only parked or waiting rows.
    version: 2,
    oldestReader: 1,
    sql: (tables) => `
CREATE TABLE ${tables.relays} (
  member       uuid PRIMARY KEY,
  alive_until  timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE ${tables.partitions} (
  partition  smallint PRIMARY KEY,
  owner      uuid,
  epoch      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO ${tables.partitions} (partition) SELECT n FROM generate_series(0, ${partitionCount - 1}) AS n;

CREATE TABLE ${tables.hands} (
  member       uuid NOT NULL,
  note         bigint NOT NULL,
  state        text COLLATE "C" NOT NULL,
  destination  text COLLATE "C" NOT NULL,
  seqs         bigint[] NOT NULL,
  attempts     integer[] NOT NULL,
  PRIMARY KEY (member, note, state, destination)
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX ON ${tables.outbox} (destination, partition, ordering_key, seq) WHERE ordering_key IS NOT NULL AND state IN ('ready', 'waiting');
CREATE INDEX ON ${tables.outbox} (destination, partition, ordering_key, seq) WHERE ordering_key IS NOT NULL AND state = 'parked';
CREATE INDEX ON ${tables.outbox} (destination, available_at, seq) WHERE ordering_key IS NULL AND state = 'waiting';

${appendFunctionSql(tables.append, tables.outbox, { locks: true })};

${keepFunctionSql(tables)};
`,
  },
  {
    // Cancelling a delayed record looks it up by the id of its message. The index has waiting rows only.
    version: 3,
    oldestReader: 1,
    sql: ({ outbox }) => `
CREATE INDEX ON ${outbox} (id) WHERE state = 'waiting';
`,
  },
  {
    // Causes and histories of failures, and the notes. Operators find all records of a message id by the new index, which replaces that of waiting rows: its name was
    // chosen by the server.
    version: 4,
    oldestReader: 1,
    sql: ({ outbox, notes }) => `
ALTER TABLE ${outbox} ADD COLUMN cause text COLLATE "C", ADD COLUMN history text;

DO ${dollarQuote(`
DECLARE
  replaced regclass;
BEGIN
  FOR replaced IN
    SELECT i.indexrelid FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = ${quoteLiteral(outbox)}::regclass AND i.indnatts = 1 AND i.indpred IS NOT NULL AND a.attname = 'id'
  LOOP
    EXECUTE format('DROP INDEX %s', replaced);
  END LOOP;
END
`)};
CREATE INDEX ON ${outbox} (id);

CREATE TABLE ${notes} (
  kind        text COLLATE "C" NOT NULL,
  name        text COLLATE "C" NOT NULL,
  value       text NOT NULL,
  written_at  timestamptz NOT NULL,
  PRIMARY KEY (kind, name)
);
CREATE INDEX ON ${notes} (kind, written_at);
`,
  },
  {
    // The claims and answers of requests with an idempotency key.
    version: 5,
    oldestReader: 1,
    sql: ({ idempotency }) => `
CREATE TABLE ${idempotency} (
  scope        text COLLATE "C" NOT NULL,
  request_key  text COLLATE "C" NOT NULL,
  fingerprint  text COLLATE "C" NOT NULL,
  token        text COLLATE "C" NOT NULL,
  lease_until  timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL,
  status       smallint,
  headers      text,
  body         bytea,
  PRIMARY KEY (scope, request_key),
  CHECK ((status IS NULL) = (headers IS NULL) AND (status IS NULL) = (body IS NULL))
);
CREATE INDEX ON ${idempotency} (expires_at);
`,
  },
  {
    // The log mode.
    version: 6,
    oldestReader: 1,
    sql: logTablesSql,
  },
  {
    // The instances of processes. The readers of the log.
    version: 7,
    oldestReader: 1,
    sql: (tables) => [processTableSql(tables), logReadersSql(tables)].join('\n'),
  },
]

/** The instances of processes. Updates of running ones change no indexed column. */
function processTableSql({ process }: Tables): string {
  return `
CREATE TABLE ${process} (
  process        text COLLATE "C" NOT NULL,
  id             text COLLATE "C" NOT NULL,
  version        bigint NOT NULL,
  state          text NOT NULL,
  state_version  integer NOT NULL,
  timeouts       text NOT NULL,
  started_at     timestamptz NOT NULL,
  changed_at     timestamptz NOT NULL,
  expires_at     timestamptz,
  PRIMARY KEY (process, id)
) WITH (fillfactor = 80);
CREATE INDEX ON ${process} (expires_at) WHERE expires_at IS NOT NULL;
`
}

/** The inbox without partitions. */
export function inboxTableSql(inbox: string): string {
  return `CREATE TABLE ${inbox} (
  consumer     text COLLATE "C" NOT NULL,
  source       text COLLATE "C" NOT NULL,
  id           text COLLATE "C" NOT NULL,
  received_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (consumer, source, id)
);
CREATE INDEX ON ${inbox} (received_at);`
}
