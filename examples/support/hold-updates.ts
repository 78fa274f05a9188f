import type { PostgresSchema } from './postgres-schema.ts'

export interface HeldUpdates {
  /** Whether an update waits, with what its transaction has written before. */
  isReached(): Promise<boolean>
  /** Ends the connections that wait, as PostgreSQL does when it notices that their client is gone, and lets other updates pass. */
  end(): Promise<void>
}

/** Lets updates of a table wait in a trigger, so that a process can be killed in the middle of a transaction. */
export async function holdUpdates({ query, url }: PostgresSchema, table: string): Promise<HeldUpdates> {
  await query("CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NEW; END'")
  await query(`CREATE TRIGGER wait BEFORE UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION wait()`)
  const [, schema = ''] = /search_path=(\w+)/.exec(decodeURIComponent(url.replaceAll('+', ' '))) ?? []
  const waiting = () =>
    query(`
    SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE relation = '${schema}.${table}'::regclass AND wait_event = 'PgSleep'
    GROUP BY pid`)
  return {
    isReached: async () => (await waiting()).length > 0,
    async end() {
      for (const { pid } of await waiting()) await query(`SELECT pg_terminate_backend(${String(pid)})`)
      await query(`DROP TRIGGER wait ON ${table}`)
    },
  }
}
