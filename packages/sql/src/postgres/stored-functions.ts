import type { Tables } from '../contract/tables.ts'
import { partitionCount } from '../records/outbox-row.ts'
import { keyLockSql } from './append.ts'
import { dollarQuote, quoteLiteral } from './sql-text.ts'

/**
 * The write contract for other languages: stores an event in the caller's transaction, as `sqlOutbox().append()` does, and returns its id. Rejects
 * events that the relay could not read back. The partition is that of `partitionOf()`: FNV-1a, on which all writers agree. With `locks`, writers of a
 * key wait for each other, whatever order the relays use: the function cannot know.
 */
export function appendFunctionSql(name: string, outbox: string, { locks }: { readonly locks: boolean }): string {
  const lock = `
  IF ordering_key IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(${keyLockSql(outbox, 'destination', 'ordering_key')});
  END IF;`
  return `CREATE ${locks ? 'OR REPLACE ' : ''}FUNCTION ${name}(
  destination   text,
  type          text,
  source        text,
  data          bytea,
  content_type  text DEFAULT 'application/json',
  id            text DEFAULT gen_random_uuid()::text,
  ordering_key  text DEFAULT NULL,
  attributes    jsonb DEFAULT '{}',
  delay         interval DEFAULT '0'
) RETURNS text LANGUAGE plpgsql AS ${dollarQuote(`
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
  END LOOP;${locks ? lock : ''}
  INSERT INTO ${outbox} (state, destination, id, type, content_type, ordering_key, partition, data, attributes, available_at)
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
`)}`
}

/**
 * Keeps the partitions of a relay: extends its lease, removes expired members, releases the partitions to hand over, and acquires what is missing of
 * its share. Returns its partitions; a row without a partition if it has none, and no row at all if its own lease had expired.
 *
 * A function, so that it is one statement: a client that stalls half-way would block all the others. Changes of owners are serialised by an advisory
 * lock. Members that are being extended are skipped, never waited for.
 */
export function keepFunctionSql({ keep, relays, partitions, hands, outbox }: Tables): string {
  return `CREATE FUNCTION ${keep}(given uuid, lease double precision, joins boolean, hand_over smallint[])
RETURNS TABLE (owned smallint, owned_epoch bigint, live integer) LANGUAGE plpgsql AS ${dollarQuote(`
DECLARE
  members  integer;
  lacking  integer;
BEGIN
  IF joins THEN
    INSERT INTO ${relays} (member, alive_until) VALUES (given, clock_timestamp() + lease * interval '1 millisecond')
    ON CONFLICT (member) DO UPDATE SET alive_until = excluded.alive_until;
  ELSE
    UPDATE ${relays} SET alive_until = clock_timestamp() + lease * interval '1 millisecond'
    WHERE member = given AND alive_until > clock_timestamp();
    IF NOT FOUND THEN RETURN; END IF;
  END IF;

  IF joins OR cardinality(hand_over) > 0 OR EXISTS (SELECT FROM ${relays} WHERE alive_until <= clock_timestamp())
    OR EXISTS (SELECT FROM ${partitions} AS p LEFT JOIN ${relays} AS r ON r.member = p.owner WHERE r.member IS NULL)
  THEN
    PERFORM pg_advisory_xact_lock(hashtextextended('ackord partitions', ${quoteLiteral(partitions)}::regclass::oid::bigint));

    DELETE FROM ${relays} WHERE member IN (
      SELECT r.member FROM ${relays} AS r WHERE r.alive_until <= clock_timestamp() FOR UPDATE SKIP LOCKED);

    -- What changed since it was claimed has been settled.
    WITH lost AS (
      DELETE FROM ${hands} AS h WHERE NOT EXISTS (SELECT FROM ${relays} AS r WHERE r.member = h.member)
      RETURNING h.state, h.destination, h.seqs, h.attempts
    )
    UPDATE ${outbox} AS o SET attempts = o.attempts + 1
    FROM lost CROSS JOIN LATERAL unnest(lost.seqs, lost.attempts) AS place(seq, attempts)
    WHERE o.state = lost.state AND o.destination = lost.destination AND o.seq = place.seq AND o.attempts = place.attempts;

    UPDATE ${partitions} AS p SET owner = NULL, epoch = p.epoch + 1 WHERE p.owner = given AND p.partition = ANY(hand_over);

    SELECT count(*) INTO members FROM ${relays} WHERE alive_until > clock_timestamp();
    SELECT ceil(${partitionCount}.0 / members) - count(*) INTO lacking FROM ${partitions} AS p WHERE p.owner = given;
    UPDATE ${partitions} AS p SET owner = given, epoch = p.epoch + 1
    WHERE p.partition IN (
      SELECT free.partition FROM ${partitions} AS free LEFT JOIN ${relays} AS r ON r.member = free.owner
      WHERE r.member IS NULL AND NOT free.partition = ANY(hand_over)
      ORDER BY free.partition LIMIT greatest(lacking, 0));
  END IF;

  SELECT count(*) INTO members FROM ${relays} WHERE alive_until > clock_timestamp();
  RETURN QUERY SELECT p.partition, p.epoch, members
  FROM (VALUES (1)) AS one(row) LEFT JOIN ${partitions} AS p ON p.owner = given;
END
`)}`
}
