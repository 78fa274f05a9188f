import { checkFunction } from '@ackord/core/internal'
import type { Driver, StatementResult } from '../driver.ts'
import type { CallbackDialect } from './callback-dialect.ts'
import { callbackDriver } from './callback-driver.ts'
import { type KnexHandle, trackedHandle } from './knex-handle.ts'

/** What is used of a `Knex`. */
export interface KnexClient {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is its own, which can be used as a Knex.
  transaction(work: (transaction: any) => Promise<any>, options?: { isolationLevel?: any }): Promise<unknown>
  readonly client: unknown
}

/** What differs between the clients of Knex. */
export interface KnexWire {
  /** A statement of ours as Knex takes it. */
  text(sql: string): string
  /** What the client answers. */
  read(response: unknown): StatementResult
}

/** A driver on Knex. */
export function knexDriver<Client extends KnexClient>(knex: Client, dialect: CallbackDialect, wire: KnexWire): Driver<Client> {
  checkFunction('fromKnex(knex).transaction', knex?.transaction)
  const driver = callbackDriver<KnexHandle>(
    {
      // What is there at run time, whatever the types say.
      root: knex as unknown as KnexHandle,
      begin: (work, isolation) =>
        knex.transaction(work, isolation === undefined ? undefined : { isolationLevel: isolation }) as ReturnType<typeof work>,
      run: (handle, sql, parameters) => run(handle, sql, parameters, wire),
      track: trackedHandle,
      inTransaction: ({ isTransaction, isCompleted }) => isTransaction === true && isCompleted?.() === false,
    },
    dialect,
  )
  return driver as unknown as Driver<Client>
}

async function run({ client }: KnexHandle, sql: string, parameters: readonly unknown[], wire: KnexWire): Promise<StatementResult> {
  const connection = await client.acquireConnection()
  try {
    const { response } = await client.query(connection, { sql: wire.text(sql), bindings: [...parameters] })
    return wire.read(response)
  } finally {
    await client.releaseConnection(connection)
  }
}
