CREATE TABLE "ackord_relays" (
  member       TEXT PRIMARY KEY NOT NULL,
  alive_until  INTEGER NOT NULL
) STRICT;

CREATE TABLE "ackord_partitions" (
  partition  INTEGER PRIMARY KEY,
  owner      TEXT,
  epoch      INTEGER NOT NULL DEFAULT 0
) STRICT;
WITH RECURSIVE numbers(n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM numbers WHERE n < 255)
INSERT INTO "ackord_partitions" (partition) SELECT n FROM numbers;

CREATE TABLE "ackord_hands" (
  member  TEXT NOT NULL,
  note    INTEGER NOT NULL,
  held    TEXT NOT NULL,
  PRIMARY KEY (member, note)
) STRICT;

CREATE INDEX "ackord_outbox_keys" ON "ackord_outbox" (destination, partition, ordering_key, seq)
WHERE ordering_key IS NOT NULL AND state IN ('ready', 'waiting');
CREATE INDEX "ackord_outbox_parked_keys" ON "ackord_outbox" (destination, partition, ordering_key, seq)
WHERE ordering_key IS NOT NULL AND state = 'parked';
CREATE INDEX "ackord_outbox_waiting_plain" ON "ackord_outbox" (destination, available_at, seq)
WHERE ordering_key IS NULL AND state = 'waiting';

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 2, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER);
