import type { Migration } from '../contract/store-dialect.ts'
import type { Tables } from '../contract/tables.ts'
import { partitionCount } from '../records/outbox-row.ts'
import { keyLocksOf } from './append.ts'

const numbers = Array.from({ length: partitionCount }, (_, partition) => `(${partition})`).join(', ')

/**
 * The outbox. States and transitions, enforced by the checks:
 *
 *     ready     claimable unless leased        ─▶ waiting, parked, published, or deleted
 *     waiting   claimable once available_at    ─▶ the same; delayed, or backing off after a failure
 *     parked    needs an operator              ─▶ ready, or deleted
 *     published only with `retain`             ─▶ deleted
 *
 * A lease is not a state: its columns are in no index, so that claiming updates a row in place. The primary key, in which the rows are stored, starts
 * with state and destination. AUTO_INCREMENT requires an index of its own on seq; claims name the index to use, because the optimizer might scan a
 * stalled destination otherwise. VARBINARY compares bytes: a collation could treat two ids as equal. Instants are UTC.
 *
 * DDL commits statement by statement: each statement can be run again after an interrupted migration. Changing a table must be the last one, because it
 * fails the second time.
 */
export const migrations: readonly Migration[] = [
  {
    version: 1,
    oldestReader: 1,
    sql: ({ inbox, outbox }) => `
CREATE TABLE IF NOT EXISTS ${inbox} (
  consumer     VARBINARY(255) NOT NULL,
  source       VARBINARY(1024) NOT NULL,
  id           VARBINARY(1024) NOT NULL,
  received_at  DATETIME(6) NOT NULL,
  PRIMARY KEY (consumer, source, id),
  KEY received (received_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS ${outbox} (
  seq           BIGINT NOT NULL AUTO_INCREMENT,
  state         VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  destination   VARBINARY(1024) NOT NULL,
  id            VARBINARY(1024) NOT NULL,
  type          VARBINARY(1024) NOT NULL,
  content_type  VARBINARY(1024),
  ordering_key  VARBINARY(1024),
  \`partition\`   SMALLINT NOT NULL,
  data          LONGBLOB NOT NULL,
  attributes    LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  created_at    DATETIME(6) NOT NULL,
  available_at  DATETIME(6) NOT NULL,
  attempts      INT NOT NULL DEFAULT 0,
  lease_token   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  lease_until   DATETIME(6),
  last_error    MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  published_at  DATETIME(6),
  parked_at     DATETIME(6),
  PRIMARY KEY (state, destination, seq),
  KEY seq (seq),
  KEY due (state, destination, available_at, seq),
  KEY published (published_at),
  CHECK (state IN ('ready', 'waiting', 'parked', 'published')),
  CHECK (attempts >= 0),
  CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
  CHECK (lease_token IS NULL OR state IN ('ready', 'waiting')),
  CHECK ((state = 'parked') = (parked_at IS NOT NULL)),
  CHECK ((state = 'published') = (published_at IS NOT NULL))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
`,
  },
  {
    // Order per key. The index is for the heads of the keys; without partial indexes it contains all other rows too.
    version: 2,
    oldestReader: 1,
    sql: ({ outbox, relays, partitions, hands }) => `
CREATE TABLE IF NOT EXISTS ${relays} (
  member       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  alive_until  DATETIME(6) NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS ${partitions} (
  \`partition\`  SMALLINT NOT NULL PRIMARY KEY,
  owner        CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  epoch        BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB;
INSERT IGNORE INTO ${partitions} (\`partition\`) VALUES ${numbers};

CREATE TABLE IF NOT EXISTS ${hands} (
  member  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  note    BIGINT NOT NULL,
  held    LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  PRIMARY KEY (member, note)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS ${keyLocksOf(outbox)} (
  \`partition\`  SMALLINT NOT NULL PRIMARY KEY,
  held         TINYINT NOT NULL DEFAULT 0
) ENGINE = InnoDB;
INSERT IGNORE INTO ${keyLocksOf(outbox)} (\`partition\`) VALUES ${numbers};

ALTER TABLE ${outbox} ADD INDEX ordered (state, destination, \`partition\`, ordering_key, seq);
`,
  },
  {
    // Cancelling a delayed record looks it up by the id of its message. Without partial indexes it contains all rows.
    version: 3,
    oldestReader: 1,
    sql: ({ outbox }) => `
ALTER TABLE ${outbox} ADD INDEX message (id);
`,
  },
  {
    // Causes and histories of failures, and the notes.
    version: 4,
    oldestReader: 1,
    sql: ({ outbox, notes }) => `
CREATE TABLE IF NOT EXISTS ${notes} (
  kind        VARBINARY(64) NOT NULL,
  name        VARBINARY(1024) NOT NULL,
  value       MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  written_at  DATETIME(6) NOT NULL,
  PRIMARY KEY (kind, name),
  KEY written (kind, written_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

ALTER TABLE ${outbox} ADD COLUMN cause VARBINARY(1024), ADD COLUMN history MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
`,
  },
  {
    // The claims and answers of requests with an idempotency key. 255 UTF-16 code units have at most 765 bytes.
    version: 5,
    oldestReader: 1,
    sql: ({ idempotency }) => `
CREATE TABLE IF NOT EXISTS ${idempotency} (
  scope        VARBINARY(765) NOT NULL,
  request_key  VARBINARY(765) NOT NULL,
  fingerprint  VARBINARY(765) NOT NULL,
  token        VARBINARY(255) NOT NULL,
  lease_until  DATETIME(6) NOT NULL,
  expires_at   DATETIME(6) NOT NULL,
  status       SMALLINT,
  headers      LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  body         LONGBLOB,
  PRIMARY KEY (scope, request_key),
  KEY expiry (expires_at),
  CHECK ((status IS NULL) = (headers IS NULL)),
  CHECK ((status IS NULL) = (body IS NULL))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
`,
  },
  {
    // The instances of processes.
    version: 6,
    oldestReader: 1,
    sql: processTableSql,
  },
]

/** The instances of processes. 255 UTF-16 code units have at most 765 bytes. */
function processTableSql({ process }: Tables): string {
  return `
CREATE TABLE IF NOT EXISTS ${process} (
  process        VARBINARY(765) NOT NULL,
  id             VARBINARY(765) NOT NULL,
  version        BIGINT NOT NULL,
  state          LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  state_version  INT NOT NULL,
  timeouts       LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  started_at     DATETIME(6) NOT NULL,
  changed_at     DATETIME(6) NOT NULL,
  expires_at     DATETIME(6),
  PRIMARY KEY (process, id),
  KEY expiry (expires_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
`
}
