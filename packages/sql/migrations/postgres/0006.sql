CREATE TABLE "ackord_log" (
  leaf          smallint NOT NULL,
  xid           xid8 NOT NULL DEFAULT pg_current_xact_id(),
  seq           bigint NOT NULL,
  destination   text COLLATE "C" NOT NULL,
  id            text COLLATE "C" NOT NULL,
  type          text COLLATE "C" NOT NULL,
  content_type  text COLLATE "C",
  ordering_key  text COLLATE "C",
  partition     smallint NOT NULL,
  data          bytea NOT NULL,
  attributes    text COLLATE "C" NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
) PARTITION BY LIST (leaf);

CREATE TABLE "ackord_cursors" (
  leaf         smallint NOT NULL,
  generation   bigint NOT NULL,
  kind         text COLLATE "C" NOT NULL,
  member       uuid,
  partitions   bit(256),
  snapshot     pg_snapshot,
  floor        bigint,
  until        pg_snapshot,
  until_floor  bigint,
  seq          bigint,
  open         bigint[] NOT NULL DEFAULT '{}',
  done         bigint[] NOT NULL DEFAULT '{}',
  noted        bigint
) PARTITION BY LIST (leaf);

DO $ackord$
DECLARE
  numbers text := pg_get_serial_sequence(E'"ackord_outbox"', 'seq');
BEGIN
  EXECUTE format('ALTER TABLE %s ALTER COLUMN seq SET DEFAULT nextval(%L)', E'"ackord_log"', numbers);
  EXECUTE format('ALTER TABLE %s ALTER COLUMN generation SET DEFAULT nextval(%L)', E'"ackord_cursors"', numbers);
END
$ackord$;

CREATE TABLE "ackord_log_0" PARTITION OF "ackord_log" FOR VALUES IN (0) WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE TABLE "ackord_log_1" PARTITION OF "ackord_log" FOR VALUES IN (1) WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE TABLE "ackord_log_2" PARTITION OF "ackord_log" FOR VALUES IN (2) WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE TABLE "ackord_log_3" PARTITION OF "ackord_log" FOR VALUES IN (3) WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE INDEX ON "ackord_log" (seq);
CREATE INDEX ON "ackord_log" (xid, seq);
CREATE TABLE "ackord_cursors_0" PARTITION OF "ackord_cursors" FOR VALUES IN (0) WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE TABLE "ackord_cursors_1" PARTITION OF "ackord_cursors" FOR VALUES IN (1) WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE TABLE "ackord_cursors_2" PARTITION OF "ackord_cursors" FOR VALUES IN (2) WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE TABLE "ackord_cursors_3" PARTITION OF "ackord_cursors" FOR VALUES IN (3) WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE INDEX ON "ackord_cursors" (kind, generation);

CREATE TABLE "ackord_taken" (
  seq  bigint PRIMARY KEY
);

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('log', 0, 0);

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 6, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = clock_timestamp();
