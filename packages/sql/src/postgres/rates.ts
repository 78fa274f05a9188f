import type { RateStatements, StoreDialect } from '../contract/store-dialect.ts'

/** One statement per call. */
export const postgresRates: NonNullable<StoreDialect['rates']> = (driver, table): RateStatements => {
  const [take, removeFull] = [takeSql(table), removeFullSql(table)]
  return {
    async take(kind, buckets) {
      const columns = [
        buckets.map(({ name }) => name),
        buckets.map(({ cost }) => cost),
        buckets.map(({ burst }) => burst),
        buckets.map(({ wanted }) => wanted),
        buckets.map(({ returned }) => returned),
      ]
      return (await driver.run(driver.pool, take, [kind, ...columns])).rows
    },

    async removeFull(kind, limit) {
      return (await driver.run(driver.pool, removeFull, [kind, limit])).count
    },
  }
}

/**
 * $1 kind, $2 names, sorted, $3 milliseconds per permit, $4 burst, $5 wanted, $6 returned. Locks the rows of the buckets, in this order.
 *
 * The value of a row is the time at which its bucket is full, in milliseconds, and the number of permits that were granted last. ON CONFLICT locks a row before it computes the new
 * value, so the old one is the latest. `written_at` is when the bucket is full, rounded up to a minute: an index has this column, and an update that does not change it writes no
 * index. Permits need not survive a crash of the server: the commit, which releases the locks, does not wait for the disk.
 */
function takeSql(table: string): string {
  return `WITH settings AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
given AS MATERIALIZED (
  SELECT * FROM unnest($2::text[], $3::float8[], $4::float8[], $5::float8[], $6::float8[]) AS given(name, cost, burst, wanted, returned)
),
added AS (
  SELECT given.name, spent.* FROM settings, given, LATERAL ${spentSql('0')} AS spent ORDER BY given.name COLLATE "C"
)
INSERT INTO ${table} AS bucket (kind, name, value, written_at)
SELECT $1::text, added.name, added.full_at || ' ' || added.granted, ${writtenAt('added.full_at')} FROM added
ON CONFLICT (kind, name) DO UPDATE SET (value, written_at) = (
  SELECT spent.full_at || ' ' || spent.granted, ${writtenAt('spent.full_at')}
  FROM given, LATERAL ${spentSql("split_part(bucket.value, ' ', 1)::float8")} AS spent
  WHERE given.name = excluded.name
)
RETURNING bucket.name, split_part(bucket.value, ' ', 2)::float8 AS granted, split_part(bucket.value, ' ', 1)::float8 - ${now} AS debt`
}

const now = `date_part('epoch', clock_timestamp()) * 1000`

/** The new state of a bucket of `given` that was full at the given time: `full_at` and `granted`. A permit counts when it lacks less than a thousandth. */
function spentSql(fullAt: string): string {
  return `(
    SELECT start + granted * given.cost AS full_at, granted FROM (
      SELECT start, least(given.wanted, greatest(0, floor((given.burst * given.cost - (start - clock)) / given.cost + 0.001))) AS granted FROM (
        SELECT clock, greatest(clock, least(${fullAt}, clock + given.burst * given.cost) - given.returned * given.cost) AS start
        FROM (SELECT ${now} AS clock OFFSET 0) AS clock
      ) AS begun
    ) AS granting
  )`
}

function writtenAt(fullAt: string): string {
  return `to_timestamp(ceil(${fullAt} / 60000) * 60)`
}

/** $1 kind, $2 limit. */
function removeFullSql(table: string): string {
  return `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${table} WHERE kind = $1::text AND written_at <= (SELECT clock_timestamp()) ORDER BY written_at LIMIT $2 FOR UPDATE SKIP LOCKED))`
}
