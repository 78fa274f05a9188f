CREATE TABLE "ackord_idempotency" (
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
CREATE INDEX ON "ackord_idempotency" (expires_at);

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 5, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = clock_timestamp();
