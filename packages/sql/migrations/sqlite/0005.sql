CREATE TABLE "ackord_idempotency" (
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
CREATE INDEX "ackord_idempotency_expiry" ON "ackord_idempotency" (expires_at);

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 5, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER);
