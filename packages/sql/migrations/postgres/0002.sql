CREATE TABLE "ackord_relays" (
  member       uuid PRIMARY KEY,
  alive_until  timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE "ackord_partitions" (
  partition  smallint PRIMARY KEY,
  owner      uuid,
  epoch      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO "ackord_partitions" (partition) SELECT n FROM generate_series(0, 255) AS n;

CREATE TABLE "ackord_hands" (
  member       uuid NOT NULL,
  note         bigint NOT NULL,
  state        text COLLATE "C" NOT NULL,
  destination  text COLLATE "C" NOT NULL,
  seqs         bigint[] NOT NULL,
  attempts     integer[] NOT NULL,
  PRIMARY KEY (member, note, state, destination)
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX ON "ackord_outbox" (destination, partition, ordering_key, seq) WHERE ordering_key IS NOT NULL AND state IN ('ready', 'waiting');
CREATE INDEX ON "ackord_outbox" (destination, partition, ordering_key, seq) WHERE ordering_key IS NOT NULL AND state = 'parked';
CREATE INDEX ON "ackord_outbox" (destination, available_at, seq) WHERE ordering_key IS NULL AND state = 'waiting';

CREATE OR REPLACE FUNCTION "ackord_append"(
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
  IF ordering_key IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(hashtextextended('ackord ' || destination || chr(10) || ordering_key, E'"ackord_outbox"'::regclass::oid::bigint));
  END IF;
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

CREATE FUNCTION "ackord_keep"(given uuid, lease double precision, joins boolean, hand_over smallint[])
RETURNS TABLE (owned smallint, owned_epoch bigint, live integer) LANGUAGE plpgsql AS $ackord$
DECLARE
  members  integer;
  lacking  integer;
BEGIN
  IF joins THEN
    INSERT INTO "ackord_relays" (member, alive_until) VALUES (given, clock_timestamp() + lease * interval '1 millisecond')
    ON CONFLICT (member) DO UPDATE SET alive_until = excluded.alive_until;
  ELSE
    UPDATE "ackord_relays" SET alive_until = clock_timestamp() + lease * interval '1 millisecond'
    WHERE member = given AND alive_until > clock_timestamp();
    IF NOT FOUND THEN RETURN; END IF;
  END IF;

  IF joins OR cardinality(hand_over) > 0 OR EXISTS (SELECT FROM "ackord_relays" WHERE alive_until <= clock_timestamp())
    OR EXISTS (SELECT FROM "ackord_partitions" AS p LEFT JOIN "ackord_relays" AS r ON r.member = p.owner WHERE r.member IS NULL)
  THEN
    PERFORM pg_advisory_xact_lock(hashtextextended('ackord partitions', E'"ackord_partitions"'::regclass::oid::bigint));

    DELETE FROM "ackord_relays" WHERE member IN (
      SELECT r.member FROM "ackord_relays" AS r WHERE r.alive_until <= clock_timestamp() FOR UPDATE SKIP LOCKED);

    -- What changed since it was claimed has been settled.
    WITH lost AS (
      DELETE FROM "ackord_hands" AS h WHERE NOT EXISTS (SELECT FROM "ackord_relays" AS r WHERE r.member = h.member)
      RETURNING h.state, h.destination, h.seqs, h.attempts
    )
    UPDATE "ackord_outbox" AS o SET attempts = o.attempts + 1
    FROM lost CROSS JOIN LATERAL unnest(lost.seqs, lost.attempts) AS place(seq, attempts)
    WHERE o.state = lost.state AND o.destination = lost.destination AND o.seq = place.seq AND o.attempts = place.attempts;

    UPDATE "ackord_partitions" AS p SET owner = NULL, epoch = p.epoch + 1 WHERE p.owner = given AND p.partition = ANY(hand_over);

    SELECT count(*) INTO members FROM "ackord_relays" WHERE alive_until > clock_timestamp();
    SELECT ceil(256.0 / members) - count(*) INTO lacking FROM "ackord_partitions" AS p WHERE p.owner = given;
    UPDATE "ackord_partitions" AS p SET owner = given, epoch = p.epoch + 1
    WHERE p.partition IN (
      SELECT free.partition FROM "ackord_partitions" AS free LEFT JOIN "ackord_relays" AS r ON r.member = free.owner
      WHERE r.member IS NULL AND NOT free.partition = ANY(hand_over)
      ORDER BY free.partition LIMIT greatest(lacking, 0));
  END IF;

  SELECT count(*) INTO members FROM "ackord_relays" WHERE alive_until > clock_timestamp();
  RETURN QUERY SELECT p.partition, p.epoch, members
  FROM (VALUES (1)) AS one(row) LEFT JOIN "ackord_partitions" AS p ON p.owner = given;
END
$ackord$;

INSERT INTO "ackord_meta" (name, version, oldest_reader) VALUES ('schema', 2, 1)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader, changed_at = clock_timestamp();
