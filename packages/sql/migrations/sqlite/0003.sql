CREATE INDEX "ackord_outbox_waiting_messages" ON "ackord_outbox" (id) WHERE state = 'waiting';

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 3, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER);
