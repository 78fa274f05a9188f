import { ownName } from '../../../../scripts/test-run.mjs'
import { pg } from './pg.ts'
import { DatabasePool } from './pool.ts'
import { type LastingTables, PooledSchema } from './pooled-schema.ts'
import { postgresUrl } from './postgres-url.ts'

export { postgresUrl } from './postgres-url.ts'

/** Access to a database for the test itself, outside any transaction. */
export interface View {
  readonly schema: string
  query(text: string, parameters?: unknown[]): Promise<Record<string, unknown>[]>
  /** The number of orders. */
  orders(): Promise<number>
  inbox(): Promise<number>
  outbox(): Promise<number>
}

export interface OwnSchema extends View, LastingTables, AsyncDisposable {
  /** Creates a pool with the schema as its search path, for the client under test. The caller must end it. */
  createPool(options?: { readonly max?: number }): InstanceType<typeof pg.Pool>
}

export interface OwnSchemaOptions {
  /** The client under test. Its tests reuse the schema one after another; it then contains only empty tables. Default: used by one test only. */
  readonly client?: string | undefined
}

/**
 * The startup options of a connection: the schema is its search path, and its name in the list of connections. Commits do not wait for the disk, which makes
 * a difference only if the server crashes.
 */
export function startOptions(schema: string): string {
  return `-c search_path=${schema} -c application_name=${schema} -c synchronous_commit=off`
}

/** Creates a schema on the server. The test reads it through separate connections, because a pool under test may have only one. */
async function createPooledSchema(): Promise<PooledSchema> {
  const schema = schemaName()
  const door = new pg.Pool({ connectionString: postgresUrl, max: 2, options: `-c search_path=${schema}` })
  door.on('error', () => {})
  const query: View['query'] = async (text, parameters = []) => (await door.query(text, parameters)).rows
  await query(`CREATE SCHEMA ${schema}`)
  return await PooledSchema.create({
    schema,
    query,
    // A terminated connection may still be running a statement.
    async isLeft() {
      for (let tries = 0; tries < 200; tries += 1) {
        const [row] = await query('SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = $1', [schema])
        if (row?.['n'] === 0) return true
      }
      return false
    },
    close: () => door.end(),
  })
}

const pool = new DatabasePool<PooledSchema>()

/** Opens a schema on the server for one test, with a table of orders. */
export async function openSchema({ client }: OwnSchemaOptions = {}): Promise<OwnSchema> {
  const pooled = (client === undefined ? undefined : pool.take(client)) ?? (await createPooledSchema())
  const { schema } = pooled
  return {
    createPool: ({ max = 10 } = {}) => new pg.Pool({ connectionString: postgresUrl, max, options: startOptions(schema) }),
    ...pooled.lasting,
    ...viewOf(schema, pooled.query),
    [Symbol.asyncDispose]: () => (client === undefined ? pooled.drop() : pool.giveBack(client, pooled)),
  }
}

export function viewOf(schema: string, query: View['query']): View {
  const count = async (table: string) => Number((await query(`SELECT count(*) AS n FROM ${schema}.${table}`))[0]?.['n'])
  return {
    schema,
    query,
    orders: () => count('orders'),
    inbox: () => count('ackord_inbox'),
    outbox: () => count('ackord_outbox'),
  }
}

/**
 * Makes inserts into the outbox fail on a connection, with error 42501. The connection gets a role with the name of the schema, which may
 * use all tables but this one. `send` sends a statement on that connection.
 */
export async function refuseAppends({ schema, query }: View, send: (statement: string) => Promise<unknown>): Promise<void> {
  await query(`CREATE ROLE ${schema}`)
  await query(`GRANT USAGE ON SCHEMA ${schema} TO ${schema}`)
  await query(`GRANT ALL ON ALL TABLES IN SCHEMA ${schema} TO ${schema}`)
  await query(`REVOKE INSERT ON ${schema}.ackord_outbox FROM ${schema}`)
  await send(`SET ROLE ${schema}`)
}

export function schemaName(): string {
  return `ackord_${ownName()}`
}
