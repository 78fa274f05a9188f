import { randomBytes } from 'node:crypto'
import { createPool as createMariadbPool, type Pool as MariadbPool } from 'mariadb'
import { createPool, type Pool, type PoolOptions } from 'mysql2/promise'
import { createSchema, type Database } from '../../../src/index.ts'
import { fromMariadb, fromMysql2 } from '../../../src/mysql/index.ts'

type Rows = Record<string, unknown>[]

/** What the handles of both drivers share. What it gives back, they do not. */
export interface MysqlHandle {
  query(sql: string, values?: unknown[]): Promise<unknown>
  execute(sql: string, values?: unknown[]): Promise<unknown>
}

export interface MysqlWorld extends AsyncDisposable {
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
  readonly empty?: boolean
  /** Options of the pool, as this driver has them. */
  readonly pool?: object
  /** The URL of another server. Default: the one that all tests share, whose settings are not to be touched. */
  readonly server?: string | undefined
  /** Whether the pool's user has no more privileges than a service needs, table by table, so that `refuseAppends()` can take one back. */
  readonly restricted?: boolean
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
  const { max = 10, empty = false } = options
  const door = await openDoor(options)
  const pool = createPool({ ...poolOptions(door.schema, max, door.server), ...options.pool })
  const database = fromMysql2(pool, { schema: door.schema }) as unknown as Database<MysqlHandle>
  if (!empty) await createSchema(database)
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
  const { max = 10, empty = false } = options
  const door = await openDoor(options)
  const { host, port, user, password, database: schema, connectionLimit } = poolOptions(door.schema, max, door.server)
  // As many as are wanted, and on a loaded machine as late as it takes.
  const pool = createMariadbPool({
    host,
    port,
    user,
    password,
    database: schema,
    connectionLimit,
    minimumIdle: 0,
    acquireTimeout: 120_000,
    ...options.pool,
  } as object)
  const database = fromMariadb(pool, { schema: door.schema }) as unknown as Database<MysqlHandle>
  if (!empty) await createSchema(database)
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

type Door = Pick<MysqlWorld, 'schema' | 'query' | 'orders' | 'inbox' | 'outbox' | 'refuseAppends'> & {
  /** The URL of the server, with the user that the pool is to have. */
  readonly server: string
  close(): Promise<void>
}

const insertedInto = ['orders', 'ackord_meta', 'ackord_inbox', 'ackord_outbox', 'ackord_partitions', 'ackord_outbox_locks']

function asUser(server: string, user: string): string {
  return Object.assign(new URL(server), { username: user, password: 'x' }).href
}

/** A new database with the table of orders, and a way to look into it while a pool of one connection is busy. */
export async function openDoor({ server = mariadbUrl, restricted = false }: OpenOptions = {}): Promise<Door> {
  const schema = `ackord_${randomBytes(6).toString('hex')}`
  const { database: _, ...options } = poolOptions(schema, 2, server)
  const first = createPool(options)
  await first.query(`CREATE DATABASE ${schema}`)
  await first.end()
  const pool = createPool({ ...options, database: schema })
  const query = async (sql: string, values: unknown[] = []) => rowsOf((await pool.query(sql, values))[0])
  await query('CREATE TABLE orders (id VARCHAR(200) PRIMARY KEY, note VARCHAR(200)) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin')
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
    async close() {
      await query(`DROP DATABASE ${schema}`)
      if (restricted) await query(`DROP USER ${schema}`)
      await pool.end()
    },
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
