import type { Migration } from '../contract/store-dialect.ts'
import type { Tables } from '../contract/tables.ts'
import { partitionCount } from '../records/outbox-row.ts'
import { indexedBy, now, quoteIndex } from './sql-text.ts'

/**
 * The outbox. States and transitions, enforced by the checks:
 *
 *     ready     claimable unless leased        ─▶ waiting, parked, published, or deleted
 *     waiting   claimable once available_at    ─▶ the same; delayed, or backing off after a failure
 *     parked    needs an operator              ─▶ ready, or deleted
 *     published only with `retain`             ─▶ deleted
 *
 * A lease is not a state: its columns are in no index, so that claiming changes no index. AUTOINCREMENT, because a plain rowid is reused when the
 * last row is deleted. Instants are milliseconds. Strings are compared byte for byte, which is SQLite's default.
 */
export const migrations: readonly Migration[] = [
  {
    version: 1,
    oldestReader: 1,
    sql: ({ inbox, outbox }) => `
CREATE TABLE ${inbox} (
  consumer     TEXT NOT NULL,
  source       TEXT NOT NULL,
  id           TEXT NOT NULL,
  received_at  INTEGER NOT NULL DEFAULT (${now}),
  PRIMARY KEY (consumer, source, id)
) STRICT;
CREATE INDEX ${quoteIndex(inbox, 'received')} (received_at);

CREATE TABLE ${outbox} (
  seq           INTEGER PRIMARY KEY AUTOINCREMENT,
  state         TEXT NOT NULL,
  destination   TEXT NOT NULL,
  id            TEXT NOT NULL,
  type          TEXT NOT NULL,
  content_type  TEXT,
  ordering_key  TEXT,
  partition     INTEGER NOT NULL,
  data          BLOB NOT NULL,
  attributes    TEXT NOT NULL,
  created_at    INTEGER NOT NULL DEFAULT (${now}),
  available_at  INTEGER NOT NULL,
  attempts      INTEGER NOT NULL DEFAULT 0,
  lease_token   TEXT,
  lease_until   INTEGER,
  last_error    TEXT,
  published_at  INTEGER,
  parked_at     INTEGER,
  CHECK (state IN ('ready', 'waiting', 'parked', 'published')),
  CHECK (attempts >= 0),
  CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
  CHECK (lease_token IS NULL OR state IN ('ready', 'waiting')),
  CHECK ((state = 'parked') = (parked_at IS NOT NULL)),
  CHECK ((state = 'published') = (published_at IS NOT NULL))
) STRICT;
CREATE INDEX ${quoteIndex(outbox, 'ready')} (destination, seq) WHERE state = 'ready';
CREATE INDEX ${quoteIndex(outbox, 'waiting')} (destination, available_at, seq) WHERE state = 'waiting';
CREATE INDEX ${quoteIndex(outbox, 'parked')} (seq) WHERE state = 'parked';
CREATE INDEX ${quoteIndex(outbox, 'published')} (published_at) WHERE state = 'published';
`,
  },
  {
    // Order per key. The first index has the heads of the keys, and no records without a key; the others only parked or waiting rows.
    version: 2,
    oldestReader: 1,
    sql: ({ outbox, relays, partitions, hands }) => `
CREATE TABLE ${relays} (
  member       TEXT PRIMARY KEY NOT NULL,
  alive_until  INTEGER NOT NULL
) STRICT;

CREATE TABLE ${partitions} (
  partition  INTEGER PRIMARY KEY,
  owner      TEXT,
  epoch      INTEGER NOT NULL DEFAULT 0
) STRICT;
WITH RECURSIVE numbers(n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM numbers WHERE n < ${partitionCount - 1})
INSERT INTO ${partitions} (partition) SELECT n FROM numbers;

CREATE TABLE ${hands} (
  member  TEXT NOT NULL,
  note    INTEGER NOT NULL,
  held    TEXT NOT NULL,
  PRIMARY KEY (member, note)
) STRICT;

CREATE INDEX ${quoteIndex(outbox, 'keys')} (destination, partition, ordering_key, seq)
WHERE ordering_key IS NOT NULL AND state IN ('ready', 'waiting');
CREATE INDEX ${quoteIndex(outbox, 'parked_keys')} (destination, partition, ordering_key, seq)
WHERE ordering_key IS NOT NULL AND state = 'parked';
CREATE INDEX ${quoteIndex(outbox, 'waiting_plain')} (destination, available_at, seq)
WHERE ordering_key IS NULL AND state = 'waiting';
`,
  },
  {
    // Cancelling a delayed record looks it up by the id of its message. The index has waiting rows only.
    version: 3,
    oldestReader: 1,
    sql: ({ outbox }) => `
CREATE INDEX ${quoteIndex(outbox, 'waiting_messages')} (id) WHERE state = 'waiting';
`,
  },
  {
    // Causes and histories of failures, and the notes. Operators find all records of a message id, and count parked records by destination.
    version: 4,
    oldestReader: 1,
    sql: ({ outbox, notes }) => `
ALTER TABLE ${outbox} ADD COLUMN cause TEXT;
ALTER TABLE ${outbox} ADD COLUMN history TEXT;
DROP INDEX ${indexedBy(outbox, 'waiting_messages')};
CREATE INDEX ${quoteIndex(outbox, 'messages')} (id);
CREATE INDEX ${quoteIndex(outbox, 'parked_destinations')} (destination, seq) WHERE state = 'parked';

CREATE TABLE ${notes} (
  kind        TEXT NOT NULL,
  name        TEXT NOT NULL,
  value       TEXT NOT NULL,
  written_at  INTEGER NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT;
CREATE INDEX ${quoteIndex(notes, 'written')} (kind, written_at);
`,
  },
  {
    // The claims and answers of requests with an idempotency key.
    version: 5,
    oldestReader: 1,
    sql: ({ idempotency }) => `
CREATE TABLE ${idempotency} (
  scope        TEXT NOT NULL,
  request_key  TEXT NOT NULL,
  fingerprint  TEXT NOT NULL,
  token        TEXT NOT NULL,
  lease_until  INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  status       INTEGER,
  headers      TEXT,
  body         BLOB,
  PRIMARY KEY (scope, request_key),
  CHECK ((status IS NULL) = (headers IS NULL) AND (status IS NULL) = (body IS NULL))
) STRICT;
CREATE INDEX ${quoteIndex(idempotency, 'expiry')} (expires_at);
`,
  },
  {
    // The instances of processes.
    version: 6,
    oldestReader: 1,
    sql: processTableSql,
  },
]

/** The instances of processes. */
function processTableSql({ process }: Tables): string {
  return `
CREATE TABLE ${process} (
  process        TEXT NOT NULL,
  id             TEXT NOT NULL,
  version        INTEGER NOT NULL,
  state          TEXT NOT NULL,
  state_version  INTEGER NOT NULL,
  timeouts       TEXT NOT NULL,
  started_at     INTEGER NOT NULL,
  changed_at     INTEGER NOT NULL,
  expires_at     INTEGER,
  PRIMARY KEY (process, id)
) STRICT;
CREATE INDEX ${quoteIndex(process, 'expiry')} (expires_at) WHERE expires_at IS NOT NULL;
`
}
