CREATE TABLE "ackord_process" (
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
CREATE INDEX ON "ackord_process" (expires_at) WHERE expires_at IS NOT NULL;

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 7, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = clock_timestamp();
