import { createPool as createMariadbPool, type Pool as MariadbPool } from 'mariadb'
import { type Connection, createPool, type Pool, type PoolOptions } from 'mysql2/promise'
import { ownName } from '../../../../../scripts/test-run.mjs'
import { createSchema, type Database, validateSchema } from '../../../src/index.ts'
import { fromMariadb, fromMysql2 } from '../../../src/mysql/index.ts'
import { DatabasePool, type Pooled } from '../../support/pool.ts'
import type { LastingTables } from '../../support/pooled-schema.ts'
import { connectForBaseline, type MysqlBaseline, takeMysqlBaseline } from './mysql-baseline.ts'

type Rows = Record<string, unknown>[]

/** What the handles of both drivers share. What it gives back, they do not. */
export interface MysqlHandle {
  query(sql: string, values?: unknown[]): Promise<unknown>
  execute(sql: string, values?: unknown[]): Promise<unknown>
}

export interface MysqlWorld extends LastingTables, AsyncDisposable {
  /** A database of its own. */
  readonly schema: string
  readonly database: Database<MysqlHandle>
  /** Runs a statement on a handle; by default on the transaction of the ambient context, or the pool. Bytes come as text. */
  run(sql: string, values?: unknown[], handle?: MysqlHandle): Promise<Rows>
  /** Outside of every transaction, through a door of its own. */
  query(sql: string, values?: unknown[]): Promise<Rows>
  orders(): Promise<number>
  inbox(): Promise<number>
  outbox(): Promise<number>
  /** A connection of the pool, to be released. */
  connect(): Promise<MysqlClient>
  /** How many connections the pool has, and how many of them are free. */
  connections(): { readonly all: number; readonly free: number }
  /** From now on the pool's user may not insert into the outbox: error 1142. Needs `restricted`. */
  refuseAppends(): Promise<unknown>
}

interface MysqlClient extends MysqlHandle {
  release(): void | Promise<void>
  destroy(): void
}

export interface OpenOptions {
  readonly max?: number
  /** Whether there are no tables of ours. */
  readonly empty?: boolean
  /** Whether no other test may have used the tables, which tells in the plans of the server. */
  readonly fresh?: boolean
  /** Options of the pool, as this driver has them. */
  readonly pool?: object
  /** The URL of another server. Default: the one that all tests share, whose settings are not to be touched. */
  readonly server?: string | undefined
  /** Whether the pool's user has no more privileges than a service needs, table by table, so that `refuseAppends()` can take one back. */
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
  // mysql2 does not tell otherwise.
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
  // As many as are wanted, and on a loaded machine as late as it takes. MySQL encrypts a password without TLS with its public key.
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

/** A view into a database with the table of orders, beside the pool under test: one of a single connection may be busy. */
export interface Door extends Pick<MysqlWorld, 'schema' | 'query' | 'orders' | 'inbox' | 'outbox' | 'refuseAppends'>, LastingTables {
  /** The URL of the server, with the user that the pool is to have. */
  readonly server: string
  close(): Promise<void>
}

export interface DoorOptions extends Pick<OpenOptions, 'server' | 'restricted'> {
  /** The client under test. Its tests get the database one after the other, with nothing but tables in it. Default: it is for one test alone. */
  readonly client?: string | undefined
}

const insertedInto = ['orders', 'ackord_meta', 'ackord_inbox', 'ackord_outbox', 'ackord_partitions', 'ackord_outbox_locks']

function asUser(server: string, user: string): string {
  return Object.assign(new URL(server), { username: user, password: 'x' }).href
}

/** A database for one test, with a table of orders. One with a user of its own is not used again. */
export async function openDoor({ server = mariadbUrl, client, restricted = false }: DoorOptions = {}): Promise<Door> {
  const shared = restricted ? undefined : client
  const pooled = (shared === undefined ? undefined : pool.take(shared)) ?? (await PooledDatabase.create(server))
  const { schema } = pooled
  const query: Door['query'] = (sql, values) => pooled.query(sql, values)
  const count = async (table: string) => Number((await query(`SELECT COUNT(*) AS n FROM ${table}`))[0]?.['n'])
  // The user has the name of the database.
  if (restricted) {
    await query(`CREATE USER ${schema} IDENTIFIED BY 'x'`)
    // A privilege of the database or of the server stays with an open connection; that of a table ends with the next statement.
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

/** A database with a table of orders, for one test after the other. */
class PooledDatabase implements Pooled {
  readonly schema: string
  readonly #door: Pool
  /** Connections that are not a test's. */
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
    // Either way the client has had a connection by now.
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

  /** Whether all connections of the last test are gone: one that was cut off may still have a statement to run. */
  async #isLeft(): Promise<boolean> {
    for (let tries = 0; tries < 200; tries += 1) {
      // Not information_schema.PROCESSLIST: on MySQL that fails while any connection runs a statement with bytes in it.
      const others = (await this.query('SHOW PROCESSLIST')).filter(({ db }) => db === this.schema)
      if (others.every(({ Id }) => this.#own.has(Number(Id)))) return true
    }
    return false
  }
}

/** From now on a trigger lets one message into the inbox: at the next it runs into a duplicate, in the primary key of a table of its own. */
export async function auditOnce({ query }: Pick<MysqlWorld, 'query'>, when: string): Promise<void> {
  await query('CREATE TABLE audit (n INT PRIMARY KEY)')
  await query(`CREATE TRIGGER audits ${when} INSERT ON ackord_inbox FOR EACH ROW INSERT INTO audit VALUES (1)`)
}

/** Rows as objects with texts for bytes; none for what is no list of rows. */
function rowsOf(result: unknown): Rows {
  if (!Array.isArray(result)) return []
  return result.map((row: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(row).map(([column, value]) => [column, Buffer.isBuffer(value) ? value.toString() : value])),
  )
}
