import { createPool as createMariadbPool, type Pool as MariadbPool } from 'mariadb'
import { type Connection, createPool, type Pool, type PoolOptions } from 'mysql2/promise'
import { ownName } from '../../../../../scripts/test-run.mjs'
import { createSchema, type Database, validateSchema } from '../../../src/index.ts'
import { fromMariadb, fromMysql2 } from '../../../src/mysql/index.ts'
import { DatabasePool, type Pooled } from '../../support/pool.ts'
import type { LastingTables } from '../../support/pooled-schema.ts'
import { connectForBaseline, type MysqlBaseline, takeMysqlBaseline } from './mysql-baseline.ts'

type Rows = Record<string, unknown>[]

/** The methods that the handles of both drivers share. Their results differ. */
export interface MysqlHandle {
  query(sql: string, values?: unknown[]): Promise<unknown>
  execute(sql: string, values?: unknown[]): Promise<unknown>
}

export interface MysqlWorld extends LastingTables, AsyncDisposable {
  /** The name of the test's own database. */
  readonly schema: string
  readonly database: Database<MysqlHandle>
  /** Runs a statement on a handle; by default on the transaction of the ambient context, or the pool. Bytes are returned as strings. */
  run(sql: string, values?: unknown[], handle?: MysqlHandle): Promise<Rows>
  /** Runs a statement outside any transaction, on a connection of the test itself. */
  query(sql: string, values?: unknown[]): Promise<Rows>
  orders(): Promise<number>
  inbox(): Promise<number>
  outbox(): Promise<number>
  /** Takes a connection from the pool. The caller must release it. */
  connect(): Promise<MysqlClient>
  /** The number of connections in the pool, and how many of them are free. */
  connections(): { readonly all: number; readonly free: number }
  /** Revokes the INSERT privilege of the pool's user on the outbox: appends then fail with error 1142. Requires `restricted`. */
  refuseAppends(): Promise<unknown>
}

interface MysqlClient extends MysqlHandle {
  release(): void | Promise<void>
  destroy(): void
}

export interface OpenOptions {
  readonly max?: number
  /** Whether the world starts without Ackord's tables. */
  readonly empty?: boolean
  /** Whether the tables must not have been used by another test, because that affects the server's query plans. */
  readonly fresh?: boolean
  /** Options of the pool, in the format of this driver. */
  readonly pool?: object
  /** The URL of another server. Default: the shared server of all tests, whose settings must not be changed. */
  readonly server?: string | undefined
  /** Whether the pool's user has only the privileges that a service needs, granted per table, so that `refuseAppends()` can revoke one. */
  readonly restricted?: boolean | undefined
}

export interface MysqlKind {
  readonly name: string
  open(options?: OpenOptions): Promise<MysqlWorld>
}

export const mariadbUrl: string = process.env['MARIADB_URL'] ?? process.env['MYSQL_URL'] ?? 'mysql://root@127.0.0.1:3306/test'

export function poolOptions(schema: string, max: number, server = mariadbUrl): PoolOptions {
  const { hostname, port, username, password } = new URL(server)
  return {
    host: hostname,
    port: Number(port || 3306),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: schema,
    connectionLimit: max,
  }
}

export async function openMysql2(options: OpenOptions = {}): Promise<MysqlWorld & { readonly pool: Pool }> {
  const { max = 10, empty = false, server, fresh = empty || server !== undefined } = options
  const door = await openDoor({ server, client: fresh ? undefined : 'mysql2', restricted: options.restricted })
  const pool = createPool({ ...poolOptions(door.schema, max, door.server), ...options.pool })
  const database = fromMysql2(pool, { schema: door.schema }) as unknown as Database<MysqlHandle>
  if (!empty) await door.createTables(database)
  // mysql2 has no public API for these counts.
  const inner = pool.pool as unknown as { readonly _allConnections: { length: number }; readonly _freeConnections: { length: number } }
  return {
    ...door,
    pool,
    database,
    run: (sql, values = [], handle = database.executor()) => handle.query(sql, values).then((result) => rowsOf((result as [unknown])[0])),
    connect: () => pool.getConnection() as unknown as Promise<MysqlClient>,
    connections: () => ({ all: inner._allConnections.length, free: inner._freeConnections.length }),
    async [Symbol.asyncDispose]() {
      await pool.end()
      await door.close()
    },
  }
}

async function openMariadb(options: OpenOptions = {}): Promise<MysqlWorld & { readonly pool: MariadbPool }> {
  const { max = 10, empty = false, server, fresh = empty || server !== undefined } = options
  const door = await openDoor({ server, client: fresh ? undefined : 'mariadb', restricted: options.restricted })
  const { host, port, user, password, database: schema, connectionLimit } = poolOptions(door.schema, max, door.server)
  // Opens connections on demand, with time for a loaded machine. Without TLS the client encrypts the password with the public key of MySQL.
  const pool = createMariadbPool({
    host,
    port,
    user,
    password,
    database: schema,
    connectionLimit,
    minimumIdle: 0,
    acquireTimeout: 120_000,
    allowPublicKeyRetrieval: true,
    ...options.pool,
  } as object)
  const database = fromMariadb(pool, { schema: door.schema }) as unknown as Database<MysqlHandle>
  if (!empty) await door.createTables(database)
  return {
    ...door,
    pool,
    database,
    run: (sql, values = [], handle = database.executor()) => handle.query(sql, values).then(rowsOf),
    connect: () => pool.getConnection() as unknown as Promise<MysqlClient>,
    connections: () => ({ all: pool.totalConnections(), free: pool.idleConnections() }),
    async [Symbol.asyncDispose]() {
      await pool.end()
      await door.close()
    },
  }
}

export const mysqlKinds: readonly MysqlKind[] = [
  { name: 'mysql2', open: openMysql2 },
  { name: 'mariadb', open: openMariadb },
]

/** Access to a database with a table of orders, separate from the pool under test, whose only connection may be busy. */
export interface Door extends Pick<MysqlWorld, 'schema' | 'query' | 'orders' | 'inbox' | 'outbox' | 'refuseAppends'>, LastingTables {
  /** The URL of the server, with the user for the pool. */
  readonly server: string
  close(): Promise<void>
}

export interface DoorOptions extends Pick<OpenOptions, 'server' | 'restricted'> {
  /** The client under test. Its tests reuse the database one after another; it then contains only empty tables. Default: used by one test only. */
  readonly client?: string | undefined
}

const insertedInto = [
  'orders',
  ...['meta', 'inbox', 'outbox', 'partitions', 'notes', 'idempotency', 'process', 'outbox_locks'].map((name) => `ackord_${name}`),
]

function asUser(server: string, user: string): string {
  return Object.assign(new URL(server), { username: user, password: 'x' }).href
}

/** Opens a database for one test, with a table of orders. A database with its own user is not reused. */
export async function openDoor({ server = mariadbUrl, client, restricted = false }: DoorOptions = {}): Promise<Door> {
  const shared = restricted ? undefined : client
  const pooled = (shared === undefined ? undefined : pool.take(shared)) ?? (await PooledDatabase.create(server))
  const { schema } = pooled
  const query: Door['query'] = (sql, values) => pooled.query(sql, values)
  const count = async (table: string) => Number((await query(`SELECT COUNT(*) AS n FROM ${table}`))[0]?.['n'])
  // The user has the same name as the database.
  if (restricted) {
    await query(`CREATE USER ${schema} IDENTIFIED BY 'x'`)
    // An open connection keeps a revoked privilege on the database or the server; on a table, it loses the privilege with the next statement.
    await query(`GRANT SELECT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES ON ${schema}.* TO ${schema}`)
    for (const table of insertedInto) await query(`GRANT INSERT, CREATE ON ${schema}.${table} TO ${schema}`)
  }
  return {
    schema,
    server: restricted ? asUser(server, schema) : server,
    refuseAppends: () => query(`REVOKE INSERT ON ${schema}.ackord_outbox FROM ${schema}`),
    query,
    orders: () => count('orders'),
    inbox: () => count('ackord_inbox'),
    outbox: () => count('ackord_outbox'),
    createTables: (database) => pooled.createTables(database),
    addTables: (...statements) => pooled.addTables(statements),
    async close() {
      if (shared !== undefined) return await pool.giveBack(shared, pooled)
      if (restricted) await query(`DROP USER ${schema}`)
      await pooled.drop()
    },
  }
}

const pool = new DatabasePool<PooledDatabase>()

/** A database with a table of orders that tests use one after another. */
class PooledDatabase implements Pooled {
  readonly schema: string
  readonly #door: Pool
  /** The ids of connections that belong to this class, not to a test. */
  readonly #own = new Set<number>()
  readonly #options: PoolOptions
  readonly #added: string[] = []
  #keeper: Connection | undefined
  #baseline: MysqlBaseline | undefined

  static async create(server?: string): Promise<PooledDatabase> {
    const schema = `ackord_${ownName()}`
    const { database: _, ...options } = poolOptions(schema, 2, server)
    const first = createPool(options)
    await first.query(`CREATE DATABASE ${schema}`)
    await first.end()
    const created = new PooledDatabase(schema, { ...options, database: schema })
    await created.query('CREATE TABLE orders (id VARCHAR(200) PRIMARY KEY, note VARCHAR(200)) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin')
    return created
  }

  private constructor(schema: string, options: PoolOptions) {
    this.schema = schema
    this.#options = options
    this.#door = createPool(options)
    this.#door.on('connection', ({ threadId }) => this.#own.add(threadId))
  }

  async query(sql: string, values: unknown[] = []): Promise<Rows> {
    return rowsOf((await this.#door.query(sql, values))[0])
  }

  async createTables<Handle>(database: Database<Handle>): Promise<void> {
    // Both branches make the client open a connection.
    if (this.#baseline !== undefined) return await validateSchema(database)
    await createSchema(database)
    await this.#takeBaseline()
  }

  async addTables(statements: readonly string[]): Promise<void> {
    const missing = statements.filter((statement) => !this.#added.includes(statement))
    for (const statement of missing) await this.query(statement)
    this.#added.push(...missing)
    if (missing.length > 0 && this.#baseline !== undefined) await this.#takeBaseline()
  }

  async reset(): Promise<boolean> {
    if (this.#baseline === undefined) return false
    return (await this.#isLeft()) && (await this.#baseline.restore())
  }

  async drop(): Promise<void> {
    this.#keeper?.destroy()
    await this.query(`DROP DATABASE ${this.schema}`)
    await this.#door.end()
  }

  async #takeBaseline(): Promise<void> {
    const { connectionLimit: _, ...options } = this.#options
    if (this.#keeper === undefined) {
      this.#keeper = await connectForBaseline(options)
      this.#own.add(this.#keeper.threadId)
    }
    this.#baseline = await takeMysqlBaseline(this.#keeper)
  }

  /** Waits until all connections of the last test are closed: a terminated connection may still be running a statement. */
  async #isLeft(): Promise<boolean> {
    for (let tries = 0; tries < 200; tries += 1) {
      // Not information_schema.PROCESSLIST: on MySQL it fails while any connection runs a statement that contains binary data.
      const others = (await this.query('SHOW PROCESSLIST')).filter(({ db }) => db === this.schema)
      if (others.every(({ Id }) => this.#own.has(Number(Id)))) return true
    }
    return false
  }
}

/** Creates a trigger that accepts one message in the inbox: for the next one it violates the primary key of its own audit table. */
export async function auditOnce({ query }: Pick<MysqlWorld, 'query'>, when: string): Promise<void> {
  await query('CREATE TABLE audit (n INT PRIMARY KEY)')
  await query(`CREATE TRIGGER audits ${when} INSERT ON ackord_inbox FOR EACH ROW INSERT INTO audit VALUES (1)`)
}

/** Converts rows to objects, and bytes to strings. Returns no rows if the result is not a list of rows. */
function rowsOf(result: unknown): Rows {
  if (!Array.isArray(result)) return []
  return result.map((row: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(row).map(([column, value]) => [column, Buffer.isBuffer(value) ? value.toString() : value])),
  )
}
