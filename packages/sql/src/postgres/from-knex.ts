import { checkFunction, checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { Driver, StatementResult } from '../driver.ts'
import type { TableOptions } from '../tables.ts'
import { callbackDriver } from './callback-driver.ts'
import { type KnexHandle, trackedHandle } from './knex-handle.ts'
import { postgresDialect } from './postgres-dialect.ts'

/** What is used of a `Knex`. */
export interface KnexClient {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is its own, which can be used as a Knex.
  transaction(work: (transaction: any) => Promise<any>): Promise<unknown>
  readonly client: unknown
}

/**
 * A database on Knex, with its client `pg`. Adapters get a `Knex`; in a transaction every query is tracked, except for streams, which must
 * be finished before the handler returns. Hooks such as `postProcessResponse` do not see our own statements.
 */
export function fromKnex<Client extends KnexClient>(knex: Client, options: TableOptions = {}): Database<Client> {
  const { schema, names, ...unknown } = options
  checkNoMore('fromKnex()', unknown)
  checkFunction('fromKnex(knex).transaction', knex?.transaction)
  const driver = callbackDriver<KnexHandle>({
    // What is there at run time, whatever the types say.
    root: knex as unknown as KnexHandle,
    begin: (work) => knex.transaction(work) as ReturnType<typeof work>,
    run,
    track: trackedHandle,
    inTransaction: ({ isTransaction, isCompleted }) => isTransaction === true && isCompleted?.() === false,
  })
  return new Database({ schema, names, dialect: postgresDialect, driver: driver as unknown as Driver<Client> })
}

async function run({ client }: KnexHandle, sql: string, parameters: readonly unknown[]): Promise<StatementResult> {
  const connection = await client.acquireConnection()
  try {
    // A question mark would be taken for a parameter.
    const { response } = await client.query(connection, { sql: sql.replaceAll('?', '\\?'), bindings: [...parameters] })
    // That of `pg`. Several statements have several, which nobody looks at.
    return { rows: response.rows ?? [], count: response.rowCount ?? 0 }
  } finally {
    await client.releaseConnection(connection)
  }
}
