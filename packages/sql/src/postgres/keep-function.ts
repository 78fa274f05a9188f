import { partitionCount } from '../partition.ts'
import type { Tables } from '../tables.ts'
import { quoteLiteral } from './quote-literal.ts'

/**
 * What a relay does to go on owning its partitions: extends its time, buries those whose time is over, gives away, takes what it lacks of its share.
 * Gives what it owns; no row with a partition if that is nothing, and no row at all if its own time was over.
 *
 * A function, so that it is one statement: a client that stalls half-way would keep all the others waiting. Who changes owners does so alone, by an advisory
 * lock. Members that are being kept are skipped, never waited for.
 */
export function keepFunctionSql({ keep, relays, partitions, hands, outbox }: Tables): string {
  return `CREATE FUNCTION ${keep}(given uuid, lease double precision, joins boolean, hand_over smallint[])
RETURNS TABLE (owned smallint, owned_epoch bigint, live integer) LANGUAGE plpgsql AS $ackord$
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
$ackord$`
}
