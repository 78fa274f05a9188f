CREATE TABLE IF NOT EXISTS `ackord_process` (
  process        VARBINARY(765) NOT NULL,
  id             VARBINARY(765) NOT NULL,
  version        BIGINT NOT NULL,
  state          LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  state_version  INT NOT NULL,
  timeouts       LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  started_at     DATETIME(6) NOT NULL,
  changed_at     DATETIME(6) NOT NULL,
  expires_at     DATETIME(6),
  PRIMARY KEY (process, id),
  KEY expiry (expires_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

INSERT INTO `ackord_meta` (name, version, oldest_reader, changed_at) VALUES ('schema', 6, 1, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE version = 6, oldest_reader = 1, changed_at = UTC_TIMESTAMP(6);
