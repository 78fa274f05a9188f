import { randomBytes } from 'node:crypto'
import { pg } from './pg.ts'

export const postgresUrl: string = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

/** What a test sees of a database, outside of every transaction. */
export interface View {
  readonly schema: string
  query(text: string, parameters?: unknown[]): Promise<Record<string, unknown>[]>
  /** How many orders there are. */
  orders(): Promise<number>
  inbox(): Promise<number>
  outbox(): Promise<number>
}

export interface OwnSchema extends View, AsyncDisposable {
  /** A pool on the schema's search path, for the client under test. Whoever asks ends it. */
  createPool(options?: { readonly max?: number }): InstanceType<typeof pg.Pool>
}

/** A schema of its own on the server, with a table of orders, dropped at the end. */
export async function openSchema(): Promise<OwnSchema> {
  const schema = schemaName()
  const createPool: OwnSchema['createPool'] = ({ max = 10 } = {}) =>
    new pg.Pool({ connectionString: postgresUrl, max, options: `-c search_path=${schema}` })
  // The test looks in through a door of its own, or a pool of one connection could not be watched.
  const door = createPool({ max: 2 })
  door.on('error', () => {})
  const query = async (text: string, parameters: unknown[] = []) => (await door.query(text, parameters)).rows
  await query(`CREATE SCHEMA ${schema}`)
  await query('CREATE TABLE orders (id text PRIMARY KEY, note text)')
  return {
    createPool,
    ...viewOf(schema, query),
    async [Symbol.asyncDispose]() {
      await query(`DROP SCHEMA ${schema} CASCADE`)
      await query(`DROP ROLE IF EXISTS ${schema}`)
      await door.end()
    },
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
  return `ackord_${randomBytes(6).toString('hex')}`
}
