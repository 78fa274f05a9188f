import type { NoteStatements, StoreDialect } from '../contract/store-dialect.ts'
import { ageOf, instant } from './sql-text.ts'

/** One statement per call. */
export const postgresNotes: StoreDialect['notes'] = (driver, table): NoteStatements => {
  const run = (sql: string, parameters: readonly unknown[]) => driver.run(driver.pool, sql, parameters)
  return {
    async put(kind, notes, keep) {
      const [names, values] = [notes.map(({ name }) => name), notes.map(({ value }) => value)]
      await run(putSql(table), [kind, names, values, keep])
    },

    async read(queries) {
      const sql = queries.map((_, index) => `SELECT * FROM (${readSql(table, 3 * index)}) AS q${index}`).join('\nUNION ALL\n')
      return (
        await run(
          sql,
          queries.flatMap(({ kind, limit, maxAge }) => [kind, limit, maxAge ?? null]),
        )
      ).rows
    },

    async delete(kind, name) {
      return (await run(`DELETE FROM ${table} WHERE kind = $1 AND name = $2`, [kind, name])).count === 1
    },
  }
}

/**
 * Writes notes and deletes old ones. $1 kind, $2 names, $3 values, $4 milliseconds for which notes are kept. Old notes that their owners write again at
 * this moment are locked, and are skipped: two relays that wait for each other would be a deadlock.
 */
function putSql(table: string): string {
  return `WITH old AS (
  DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM ${table}
    WHERE kind = $1::text AND written_at < (SELECT clock_timestamp()) - $4::float8 * interval '1 millisecond' AND name <> ALL($2::text[])
    FOR UPDATE SKIP LOCKED))
)
INSERT INTO ${table} (kind, name, value, written_at)
SELECT $1::text, given.name, given.value, clock_timestamp() FROM unnest($2::text[], $3::text[]) AS given(name, value)
ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value, written_at = excluded.written_at`
}

/** The latest notes first. After this many other parameters: kind, limit, maximum age in milliseconds (null: any). */
function readSql(table: string, before: number): string {
  const [kind, limit, maxAge] = [before + 1, before + 2, before + 3]
  return `SELECT kind, name, value, ${instant('written_at')} AS at, ${ageOf('written_at')} AS age FROM ${table}
WHERE kind = $${kind} AND written_at >= coalesce((SELECT clock_timestamp()) - $${maxAge}::float8 * interval '1 millisecond', '-infinity')
ORDER BY written_at DESC LIMIT $${limit}`
}
