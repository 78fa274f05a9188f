CREATE TABLE IF NOT EXISTS `ackord_meta` (
  name           VARBINARY(64) NOT NULL PRIMARY KEY,
  version        INT NOT NULL,
  oldest_reader  INT NOT NULL,
  changed_at     DATETIME(6) NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `ackord_inbox` (
  consumer     VARBINARY(255) NOT NULL,
  source       VARBINARY(1024) NOT NULL,
  id           VARBINARY(1024) NOT NULL,
  received_at  DATETIME(6) NOT NULL,
  PRIMARY KEY (consumer, source, id),
  KEY received (received_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS `ackord_outbox` (
  seq           BIGINT NOT NULL AUTO_INCREMENT,
  state         VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  destination   VARBINARY(1024) NOT NULL,
  id            VARBINARY(1024) NOT NULL,
  type          VARBINARY(1024) NOT NULL,
  content_type  VARBINARY(1024),
  ordering_key  VARBINARY(1024),
  `partition`   SMALLINT NOT NULL,
  data          LONGBLOB NOT NULL,
  attributes    LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  created_at    DATETIME(6) NOT NULL,
  available_at  DATETIME(6) NOT NULL,
  attempts      INT NOT NULL DEFAULT 0,
  lease_token   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  lease_until   DATETIME(6),
  last_error    MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  published_at  DATETIME(6),
  parked_at     DATETIME(6),
  PRIMARY KEY (state, destination, seq),
  KEY seq (seq),
  KEY due (state, destination, available_at, seq),
  KEY published (published_at),
  CHECK (state IN ('ready', 'waiting', 'parked', 'published')),
  CHECK (attempts >= 0),
  CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
  CHECK (lease_token IS NULL OR state IN ('ready', 'waiting')),
  CHECK ((state = 'parked') = (parked_at IS NOT NULL)),
  CHECK ((state = 'published') = (published_at IS NOT NULL))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

INSERT INTO `ackord_meta` (name, version, oldest_reader, changed_at) VALUES ('schema', 1, 1, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE version = 1, oldest_reader = 1, changed_at = UTC_TIMESTAMP(6);
