CREATE TABLE IF NOT EXISTS "ackord_meta" (
  name           TEXT PRIMARY KEY NOT NULL,
  version        INTEGER NOT NULL,
  oldest_reader  INTEGER NOT NULL,
  changed_at     INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER))
) STRICT;

CREATE TABLE "ackord_inbox" (
  consumer     TEXT NOT NULL,
  source       TEXT NOT NULL,
  id           TEXT NOT NULL,
  received_at  INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER)),
  PRIMARY KEY (consumer, source, id)
) STRICT;
CREATE INDEX "ackord_inbox_received" ON "ackord_inbox" (received_at);

CREATE TABLE "ackord_outbox" (
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
  created_at    INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER)),
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
CREATE INDEX "ackord_outbox_ready" ON "ackord_outbox" (destination, seq) WHERE state = 'ready';
CREATE INDEX "ackord_outbox_waiting" ON "ackord_outbox" (destination, available_at, seq) WHERE state = 'waiting';
CREATE INDEX "ackord_outbox_parked" ON "ackord_outbox" (seq) WHERE state = 'parked';
CREATE INDEX "ackord_outbox_published" ON "ackord_outbox" (published_at) WHERE state = 'published';

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 1, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER);
