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


CREATE UNLOGGED TABLE "ackord_readers" (
  member  uuid PRIMARY KEY,
  place   oid NOT NULL,
  reads   bigint NOT NULL DEFAULT 0,
  writes  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

DO $ackord$
BEGIN
  EXECUTE format('ALTER TABLE %s ALTER COLUMN seq SET DEFAULT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval(%L) END',
    E'"ackord_log"', pg_get_serial_sequence(E'"ackord_outbox"', 'seq'));
END
$ackord$;

UPDATE "ackord_cursors" SET floor = 0, until_floor = CASE WHEN until_floor IS NOT NULL THEN 0 END WHERE kind = 'd';

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 7, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = clock_timestamp();
