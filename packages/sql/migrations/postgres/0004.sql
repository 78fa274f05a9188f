ALTER TABLE "ackord_outbox" ADD COLUMN cause text COLLATE "C", ADD COLUMN history text;

DO $ackord$
DECLARE
  replaced regclass;
BEGIN
  FOR replaced IN
    SELECT i.indexrelid FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = E'"ackord_outbox"'::regclass AND i.indnatts = 1 AND i.indpred IS NOT NULL AND a.attname = 'id'
  LOOP
    EXECUTE format('DROP INDEX %s', replaced);
  END LOOP;
END
$ackord$;
CREATE INDEX ON "ackord_outbox" (id);

CREATE TABLE "ackord_notes" (
  kind        text COLLATE "C" NOT NULL,
  name        text COLLATE "C" NOT NULL,
  value       text NOT NULL,
  written_at  timestamptz NOT NULL,
  PRIMARY KEY (kind, name)
);
CREATE INDEX ON "ackord_notes" (kind, written_at);

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 4, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = clock_timestamp();
