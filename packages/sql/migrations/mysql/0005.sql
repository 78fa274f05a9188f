CREATE TABLE IF NOT EXISTS `ackord_idempotency` (
  scope        VARBINARY(765) NOT NULL,
  request_key  VARBINARY(765) NOT NULL,
  fingerprint  VARBINARY(765) NOT NULL,
  token        VARBINARY(255) NOT NULL,
  lease_until  DATETIME(6) NOT NULL,
  expires_at   DATETIME(6) NOT NULL,
  status       SMALLINT,
  headers      LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  body         LONGBLOB,
  PRIMARY KEY (scope, request_key),
  KEY expiry (expires_at),
  CHECK ((status IS NULL) = (headers IS NULL)),
  CHECK ((status IS NULL) = (body IS NULL))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

INSERT INTO `ackord_meta` (name, version, oldest_reader, changed_at) VALUES ('schema', 5, 1, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE version = 5, oldest_reader = 1, changed_at = UTC_TIMESTAMP(6);
