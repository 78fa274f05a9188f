import { ownName } from '../../../../scripts/test-run.mjs'
import { pg } from './pg.ts'
import { DatabasePool } from './pool.ts'
import { type LastingTables, PooledSchema } from './pooled-schema.ts'
import { postgresUrl } from './postgres-url.ts'

export { postgresUrl } from './postgres-url.ts'

/** What a test sees of a database, outside of every transaction. */
export interface View {
  readonly schema: string
  query(text: string, parameters?: unknown[]): Promise<Record<string, unknown>[]>
  /** How many orders there are. */
  orders(): Promise<number>
  inbox(): Promise<number>
  outbox(): Promise<number>
}

export interface OwnSchema extends View, LastingTables, AsyncDisposable {
  /** A pool on the schema's search path, for the client under test. Whoever asks ends it. */
  createPool(options?: { readonly max?: number }): InstanceType<typeof pg.Pool>
}

export interface OwnSchemaOptions {
  /** The client under test. Its tests get the schema one after the other, with nothing but tables in it. Default: it is for one test alone. */
  readonly client?: string | undefined
}

/**
 * What a connection tells the server when it is opened: the schema is its search path, and its name in the list of connections. Commits do not wait for the
 * disk, which only a crash of the server could tell.
 */
export function startOptions(schema: string): string {
  return `-c search_path=${schema} -c application_name=${schema} -c synchronous_commit=off`
}

/** A schema on the server, and a door: the test looks in through connections of its own, or a pool of one could not be watched. */
async function createPooledSchema(): Promise<PooledSchema> {
  const schema = schemaName()
  const door = new pg.Pool({ connectionString: postgresUrl, max: 2, options: `-c search_path=${schema}` })
  door.on('error', () => {})
  const query: View['query'] = async (text, parameters = []) => (await door.query(text, parameters)).rows
  await query(`CREATE SCHEMA ${schema}`)
  return await PooledSchema.create({
    schema,
    query,
    // A connection that was cut off may still have a statement to run.
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

/** A schema for one test on the server, with a table of orders. */
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
 * From now on a connection may not insert into the outbox: error 42501. It gets a role with the name of the schema, which may use all of
 * its tables but this one. `send` sends a statement on that connection.
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
