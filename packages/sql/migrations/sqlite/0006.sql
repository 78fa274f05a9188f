CREATE TABLE "ackord_process" (
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
CREATE INDEX "ackord_process_expiry" ON "ackord_process" (expires_at) WHERE expires_at IS NOT NULL;

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 6, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER);
