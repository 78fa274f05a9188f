ALTER TABLE "ackord_outbox" ADD COLUMN cause TEXT;
ALTER TABLE "ackord_outbox" ADD COLUMN history TEXT;
DROP INDEX "ackord_outbox_waiting_messages";
CREATE INDEX "ackord_outbox_messages" ON "ackord_outbox" (id);
CREATE INDEX "ackord_outbox_parked_destinations" ON "ackord_outbox" (destination, seq) WHERE state = 'parked';

CREATE TABLE "ackord_notes" (
  kind        TEXT NOT NULL,
  name        TEXT NOT NULL,
  value       TEXT NOT NULL,
  written_at  INTEGER NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT;
CREATE INDEX "ackord_notes_written" ON "ackord_notes" (kind, written_at);

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 4, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER);
