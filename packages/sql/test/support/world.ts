import type { Middleware } from '@ackord/core'
import { Message, type Process, rootContext } from '@ackord/core'
import { PGlite } from '@electric-sql/pglite'
import type { Pool, PoolClient } from 'pg'
import type { Database } from '../../src/index.ts'
import { fromPg, fromPglite } from '../../src/postgres/index.ts'
import { type OwnSchema, openSchema, schemaName, type View, viewOf } from './own-schema.ts'
import { DatabasePool } from './pool.ts'
import { type LastingTables, PooledSchema } from './pooled-schema.ts'

export { postgresUrl } from './own-schema.ts'

/** The methods that the handles of both drivers share. */
export interface TestHandle {
  query(text: string, parameters?: unknown[]): Promise<{ readonly rows: Record<string, unknown>[] }>
}

export interface World extends View, AsyncDisposable {
  readonly database: Database<TestHandle>
}

export interface WorldKind {
  readonly name: string
  open(options?: WorldOptions): Promise<World>
}

interface WorldOptions {
  readonly max?: number
  /** Whether the world starts without Ackord's tables. */
  readonly empty?: boolean
  /** Whether the tables must not have been used by another test, because that affects the server's query plans. */
  readonly fresh?: boolean
}

/** Opens a separate schema on the server, which is the search path of `pool`. */
export async function openPg(
  options: WorldOptions = {},
): Promise<World & Omit<OwnSchema, keyof World> & { readonly pool: Pool; readonly client: () => Promise<PoolClient> }> {
  const { max = 10, empty = false, fresh = empty } = options
  const own = await openSchema({ client: fresh ? undefined : 'pg' })
  const { schema } = own
  const pool = own.createPool({ max })
  const database = fromPg(pool, { schema, logger: { debug() {}, info() {}, warn() {}, error() {} } })
  if (!empty) await own.createTables(database)
  return {
    ...own,
    pool,
    client: () => pool.connect(),
    // Both drivers support this form of query().
    database: database as unknown as Database<TestHandle>,
    async [Symbol.asyncDispose]() {
      await pool.end()
      await own[Symbol.asyncDispose]()
    },
  }
}

let pglite: Promise<PGlite> | undefined

const pglitePool = new DatabasePool<PooledSchema>()

/** All worlds of a file share one PGlite, because it takes seconds to start. */
export async function openPglite(
  options: { readonly empty?: boolean } = {},
): Promise<World & Pick<LastingTables, 'addTables'> & { readonly pglite: PGlite }> {
  const { empty = false } = options
  pglite ??= PGlite.create()
  const client = await pglite
  const pooled = (empty ? undefined : pglitePool.take('PGlite')) ?? (await createPgliteSchema(client))
  const { schema, query } = pooled
  await client.exec(`SET search_path TO ${schema}`)
  const database = fromPglite(client, { schema })
  if (!empty) await pooled.lasting.createTables(database)
  return {
    pglite: client,
    addTables: pooled.lasting.addTables,
    ...viewOf(schema, query),
    database: database as unknown as Database<TestHandle>,
    [Symbol.asyncDispose]: () => (empty ? pooled.drop() : pglitePool.giveBack('PGlite', pooled)),
  }
}

async function createPgliteSchema(client: PGlite): Promise<PooledSchema> {
  const schema = schemaName()
  await client.exec(`CREATE SCHEMA ${schema}`)
  return await PooledSchema.create({
    schema,
    query: async (text, parameters = []) => (await client.query<Record<string, unknown>>(text, parameters)).rows,
    isLeft: async () => true,
    close: async () => {},
  })
}

export const worldKinds: readonly WorldKind[] = [
  { name: 'pg', open: openPg },
  { name: 'PGlite', open: openPglite },
]

export interface Verdict {
  readonly verdict: 'ack' | 'nack' | 'reject'
  readonly error?: unknown
}

/** Creates a command that records its verdicts as the broker would receive them. */
export function command(id: string, attributes: Record<string, string> = {}): { readonly message: Message; readonly verdicts: Verdict[] } {
  const verdicts: Verdict[] = []
  const message = new Message(
    { id },
    { id, type: 'order.place', source: '/shop', specversion: '1.0', ...attributes },
    {
      acking: {
        ack: () => void verdicts.push({ verdict: 'ack' }),
        nack: (error) => void verdicts.push({ verdict: 'nack', error }),
        reject: (error) => void verdicts.push({ verdict: 'reject', error }),
      },
    },
  )
  return { message, verdicts }
}

/** Creates a complete event, as the router does. */
export function event(id: string, attributes: Record<string, string> = {}, data: unknown = { id }): Message {
  return new Message(data, { id, type: 'order.placed', source: '/orders', specversion: '1.0', ...attributes })
}

/** Calls one middleware, without a router. */
export function handle(
  middleware: Middleware,
  process: Process,
  message: Message = command('1').message,
  signal?: AbortSignal,
): Promise<readonly Message[]> {
  return middleware(process)(message, message.context(rootContext({ signal })))
}

/** Resolves to the error that the promise rejects with. Rejects if the promise does not reject. */
export async function failureOf(promise: Promise<unknown>): Promise<Error & { code?: string; cause?: unknown; retryable?: boolean }> {
  try {
    await promise
  } catch (error) {
    if (error instanceof Error) return error
    throw new Error('The promise rejected with a value that is not an Error.', { cause: error })
  }
  throw new Error('The promise did not reject.')
}
