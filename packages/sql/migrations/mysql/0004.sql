CREATE TABLE IF NOT EXISTS `ackord_notes` (
  kind        VARBINARY(64) NOT NULL,
  name        VARBINARY(1024) NOT NULL,
  value       MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  written_at  DATETIME(6) NOT NULL,
  PRIMARY KEY (kind, name),
  KEY written (kind, written_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

ALTER TABLE `ackord_outbox` ADD COLUMN cause VARBINARY(1024), ADD COLUMN history MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO `ackord_meta` (name, version, oldest_reader, changed_at) VALUES ('schema', 4, 1, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE version = 4, oldest_reader = 1, changed_at = UTC_TIMESTAMP(6);
