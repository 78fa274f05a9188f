CREATE TABLE IF NOT EXISTS "ackord_meta" (
  name           text COLLATE "C" PRIMARY KEY,
  version        integer NOT NULL,
  oldest_reader  integer NOT NULL,
  changed_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE "ackord_inbox" (
  consumer     text COLLATE "C" NOT NULL,
  source       text COLLATE "C" NOT NULL,
  id           text COLLATE "C" NOT NULL,
  received_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (consumer, source, id)
);
CREATE INDEX ON "ackord_inbox" (received_at);

CREATE FUNCTION "ackord_valid"(
  state text, attempts integer, lease_token uuid, lease_until timestamptz, parked_at timestamptz, published_at timestamptz
) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $ackord$
BEGIN
  RETURN attempts >= 0 AND (lease_token IS NULL) = (lease_until IS NULL) AND CASE state
    WHEN 'ready' THEN parked_at IS NULL AND published_at IS NULL
    WHEN 'waiting' THEN parked_at IS NULL AND published_at IS NULL
    WHEN 'parked' THEN parked_at IS NOT NULL AND published_at IS NULL AND lease_token IS NULL
    WHEN 'published' THEN published_at IS NOT NULL AND parked_at IS NULL AND lease_token IS NULL
    ELSE false
  END;
END
$ackord$;

CREATE TABLE "ackord_outbox" (
  seq           bigint GENERATED ALWAYS AS IDENTITY,
  state         text COLLATE "C" NOT NULL,
  destination   text COLLATE "C" NOT NULL,
  id            text COLLATE "C" NOT NULL,
  type          text COLLATE "C" NOT NULL,
  content_type  text COLLATE "C",
  ordering_key  text COLLATE "C",
  partition     smallint NOT NULL,
  data          bytea NOT NULL,
  attributes    text COLLATE "C" NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  available_at  timestamptz NOT NULL,
  attempts      integer NOT NULL DEFAULT 0,
  lease_token   uuid,
  lease_until   timestamptz,
  last_error    text,
  published_at  timestamptz,
  parked_at     timestamptz,
  PRIMARY KEY (state, destination, seq),
  CHECK ("ackord_valid"(state, attempts, lease_token, lease_until, parked_at, published_at))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
CREATE INDEX ON "ackord_outbox" (destination, available_at, seq) WHERE state = 'waiting';
CREATE INDEX ON "ackord_outbox" (published_at) WHERE state = 'published';

CREATE FUNCTION "ackord_append"(
  destination   text,
  type          text,
  source        text,
  data          bytea,
  content_type  text DEFAULT 'application/json',
  id            text DEFAULT gen_random_uuid()::text,
  ordering_key  text DEFAULT NULL,
  attributes    jsonb DEFAULT '{}',
  delay         interval DEFAULT '0'
) RETURNS text LANGUAGE plpgsql AS $ackord$
#variable_conflict use_variable
DECLARE
  part   record;
  hash   bigint := 2166136261;
  bytes  bytea;
BEGIN
  FOR part IN SELECT * FROM (VALUES ('destination', destination), ('type', type), ('source', source), ('id', id)) AS part(name, value) LOOP
    IF coalesce(part.value, '') = '' THEN
      RAISE EXCEPTION 'ackord_append: % is missing', part.name USING ERRCODE = 'invalid_parameter_value';
    END IF;
  END LOOP;
  FOR part IN SELECT * FROM (VALUES ('destination', destination), ('type', type), ('source', source), ('id', id),
    ('ordering_key', ordering_key), ('content_type', content_type)) AS part(name, value) LOOP
    IF octet_length(part.value) > 1024 THEN
      RAISE EXCEPTION 'ackord_append: % is longer than 1024 bytes', part.name USING ERRCODE = 'invalid_parameter_value';
    END IF;
  END LOOP;
  FOR part IN SELECT key, jsonb_typeof(value) AS kind FROM jsonb_each(attributes) LOOP
    IF part.kind NOT IN ('string', 'number', 'boolean') THEN
      RAISE EXCEPTION 'ackord_append: attribute % is not a text, number or boolean', part.key USING ERRCODE = 'invalid_parameter_value';
    END IF;
  END LOOP;
  bytes := convert_to(coalesce(ordering_key, id), 'UTF8');
  FOR place IN 0 .. octet_length(bytes) - 1 LOOP
    hash := ((hash # get_byte(bytes, place)) * 16777619) & 4294967295;
  END LOOP;
  INSERT INTO "ackord_outbox" (state, destination, id, type, content_type, ordering_key, partition, data, attributes, available_at)
  VALUES (
    CASE WHEN delay > interval '0' THEN 'waiting' ELSE 'ready' END, destination, id, type, content_type, ordering_key,
    (((hash >> 16) # hash) & 255)::smallint, data,
    (jsonb_build_object('time', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) || attributes
      || jsonb_strip_nulls(jsonb_build_object('id', id, 'type', type, 'source', source, 'specversion', '1.0',
        'datacontenttype', content_type, 'partitionkey', ordering_key)))::text,
    clock_timestamp() + greatest(delay, interval '0')
  );
  RETURN id;
END
$ackord$;

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 1, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = clock_timestamp();
