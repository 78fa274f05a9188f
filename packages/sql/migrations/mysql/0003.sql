ALTER TABLE `ackord_outbox` ADD INDEX message (id);

INSERT INTO `ackord_meta` (name, version, oldest_reader, changed_at) VALUES ('schema', 3, 1, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE version = 3, oldest_reader = 1, changed_at = UTC_TIMESTAMP(6);
