import { compose, type Middleware, silentLogger } from '@ackord/core'
import { createSchema, type Database, inboxMiddleware, type SqlOutbox, sqlOutbox, transactionMiddleware } from '@ackord/sql'
import { fromMysql2 } from '@ackord/sql/mysql'
import { fromPg } from '@ackord/sql/postgres'
import { fromSqlite } from '@ackord/sql/sqlite'
import { createPool } from 'mysql2/promise'
import { openDoor, poolOptions } from '../../packages/sql/test/mysql/support/mysql-world.ts'
import { nodeKind, type TestClient } from '../../packages/sql/test/sqlite/support/sqlite-world.ts'
import { openSchema } from '../../packages/sql/test/support/own-schema.ts'
import type { WatchedStore } from './injection-suite.ts'

/** The signature of the functions through which every driver sends statements. */
type Send = (...given: unknown[]) => unknown

/** Wraps a method, and passes the text of each statement to `onText`. */
function tap(owner: object, method: string, onText: (text: string) => void): void {
  const methods = owner as Record<string, Send>
  const send = methods[method]?.bind(owner)
  if (send === undefined) throw new Error(`There is no method '${method}'.`)
  methods[method] = (...given) => {
    const text = textOf(given[0])
    if (text !== undefined) onText(text)
    return send(...given)
  }
}

/** Drivers accept a text, or an object that contains it. */
function textOf(statement: unknown): string | undefined {
  if (typeof statement === 'string') return statement
  if (typeof statement !== 'object' || statement === null) return undefined
  const { text, sql } = statement as { readonly text?: unknown; readonly sql?: unknown }
  return [text, sql].find((each) => typeof each === 'string') as string | undefined
}

interface Parts<Handle> {
  readonly database: Database<Handle>
  readonly texts: ReadonlySet<string>
  surroundings(): Promise<unknown>
  close(): Promise<unknown>
}

function storeOf<Handle>({ database, texts, surroundings, close }: Parts<Handle>): WatchedStore {
  const outbox: SqlOutbox<Handle> = sqlOutbox(database, { logger: silentLogger })
  return {
    outbox,
    append: (records) => database.write((transaction) => outbox.append(transaction, records), { logger: silentLogger }),
    inbox: (consumer): Middleware =>
      compose(transactionMiddleware(database, { logger: silentLogger }), inboxMiddleware(database, { consumer })),
    texts: async () => [...texts],
    surroundings,
    async [Symbol.asyncDispose]() {
      await close()
    },
  }
}

export async function openPostgres(): Promise<WatchedStore> {
  const own = await openSchema()
  await own.query(`CREATE TABLE canary (id text); INSERT INTO canary VALUES ('alive')`)
  const texts = new Set<string>()
  const pool = own.createPool()
  // Every statement is sent through one of these two methods.
  pool.on('connect', (client) => {
    const { connection } = client as unknown as { readonly connection: object }
    for (const method of ['parse', 'query']) tap(connection, method, (text) => texts.add(text))
  })
  const database = fromPg(pool, { logger: silentLogger })
  await createSchema(database)
  return storeOf({
    database,
    texts,
    surroundings: async () => ({
      canary: await own.query('SELECT * FROM canary'),
      tables: await own.query('SELECT table_name FROM information_schema.tables WHERE table_schema = $1 ORDER BY 1', [own.schema]),
      functions: await own.query('SELECT routine_name FROM information_schema.routines WHERE routine_schema = $1 ORDER BY 1', [own.schema]),
    }),
    async close() {
      await pool.end()
      await own[Symbol.asyncDispose]()
    },
  })
}

/** `mode` is the server's SQL mode; some modes change how quotes are parsed. */
export async function openMariadb(mode?: string): Promise<WatchedStore> {
  const door = await openDoor()
  await door.query('CREATE TABLE canary (id VARCHAR(20))')
  await door.query(`INSERT INTO canary VALUES ('alive')`)
  const texts = new Set<string>()
  const pool = createPool({ ...poolOptions(door.schema, 5), multipleStatements: true })
  pool.pool.on('connection', (connection) => {
    if (mode !== undefined) connection.query(`SET SESSION sql_mode = '${mode}'`)
    for (const method of ['query', 'execute']) tap(connection, method, (text) => texts.add(text))
  })
  const database = fromMysql2(pool)
  await createSchema(database)
  return storeOf({
    database,
    texts,
    surroundings: async () => ({ canary: await door.query('SELECT * FROM canary'), tables: await door.query('SHOW TABLES') }),
    async close() {
      await pool.end()
      await door.close()
    },
  })
}

export async function openSqlite(): Promise<WatchedStore> {
  const world = await nodeKind.open({ empty: true })
  world.close()
  const connection: TestClient = nodeKind.connect(world.path)
  connection.exec(`CREATE TABLE canary (id TEXT); INSERT INTO canary VALUES ('alive')`)
  const texts = new Set<string>()
  const client = tapped(connection, (text) => texts.add(text))
  const database = fromSqlite(client, { logger: silentLogger })
  await createSchema(database)
  return storeOf({
    database,
    texts,
    surroundings: async () => ({
      canary: world.query('SELECT * FROM canary'),
      schema: world.query('SELECT type, name, sql FROM sqlite_schema ORDER BY name'),
    }),
    async close() {
      connection.close()
      await world[Symbol.asyncDispose]()
    },
  })
}

/** The methods of the connection cannot be replaced, so a proxy wraps it. */
function tapped(connection: TestClient, onText: (text: string) => void): TestClient {
  return new Proxy(connection, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...given: unknown[]) => {
        if ((name === 'prepare' || name === 'exec') && typeof given[0] === 'string') onText(given[0])
        return value.apply(target, given)
      }
    },
  })
}
