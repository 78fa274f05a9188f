import { keyLockSql } from './key-lock.ts'

/**
 * The write contract for other languages: stores an event in the caller's transaction, as `sqlOutbox().append()` does, and gives its id.
 * It refuses what the relay could not read back. The partition is that of `partitionOf()`: FNV-1a, by which every writer agrees.
 * With `locks`, writers of a key wait for each other, whatever order the relays keep: the function cannot know.
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
$ackord$`
}
