import { mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@ackord/core'
import { DatabaseSync } from '@photostructure/sqlite'
import { ownName } from '../../../../../scripts/test-run.mjs'
import { createSchema, type Database, validateSchema } from '../../../src/index.ts'
import { type FromSqliteOptions, fromSqlite, type SqliteClient } from '../../../src/sqlite/index.ts'
import { BetterShape } from './better-shape.ts'

/** The methods that the statements of both clients share. */
interface TestStatement {
  run(...parameters: unknown[]): { readonly changes: number | bigint }
  get(...parameters: unknown[]): unknown
  all(...parameters: unknown[]): unknown[]
  iterate(...parameters: unknown[]): IterableIterator<unknown>
}

export interface TestClient extends SqliteClient {
  prepare(sql: string): TestStatement
  close(): unknown
}

export type TestHandle = Pick<TestClient, 'prepare' | 'exec'>

export interface SqliteWorld extends AsyncDisposable {
  readonly path: string
  readonly client: TestClient
  readonly database: Database<TestHandle>
  /** Opens another connection to the file. It is closed with the world. */
  connect(): TestClient
  /** Closes all connections opened so far. */
  close(): void
  /** Reads committed rows through a separate connection. */
  query(sql: string, ...parameters: unknown[]): Record<string, unknown>[]
  count(table: string): number
}

interface SqliteWorldOptions extends Omit<FromSqliteOptions<TestClient>, 'reader'> {
  /** Whether the world starts without Ackord's tables. */
  readonly empty?: boolean
  /** Whether the database has a reader. */
  readonly withReader?: boolean
}

export interface SqliteKind {
  readonly name: string
  connect(path: string): TestClient
  open(options?: SqliteWorldOptions): Promise<SqliteWorld>
}

/** The path of a better-sqlite3 installed elsewhere. If it is set, the suite runs on that package. */
const better: string | undefined = process.env['BETTER_SQLITE3']

function connectBetter(path: string): TestClient {
  if (better === undefined) return new BetterShape(path)
  return new (createRequire(import.meta.url)(better))(path)
}

/** node:sqlite if Node has it; otherwise the package that provides it for older versions. */
const builtIn = process.getBuiltinModule?.('node:sqlite') as { readonly DatabaseSync: typeof DatabaseSync } | undefined

export const nodeKind: SqliteKind = kindOf('node:sqlite', (path) => new (builtIn?.DatabaseSync ?? DatabaseSync)(path))

export const sqliteKinds: readonly SqliteKind[] = [
  nodeKind,
  kindOf(better === undefined ? 'the shape of better-sqlite3' : 'better-sqlite3', connectBetter),
]

const createOrders = 'CREATE TABLE orders (id TEXT PRIMARY KEY NOT NULL, note TEXT) STRICT'

function kindOf(name: string, connect: (path: string) => TestClient): SqliteKind {
  let template: Promise<Uint8Array> | undefined
  const openTemplate = () => (template ??= createTemplate(connect))
  return { name, connect, open: (options = {}) => openWorld(connect, openTemplate, options) }
}

/** Creates a file with all tables. Copying it takes a tenth of the time of creating the tables. */
async function createTemplate(connect: (path: string) => TestClient): Promise<Uint8Array> {
  const directory = mkdtempSync(join(directoryRoot(), `ackord-sqlite-${ownName()}-`))
  try {
    const path = join(directory, 'template.db')
    const client = connect(path)
    client.exec(createOrders)
    await createSchema(fromSqlite(client, { logger: silentLogger }))
    // Moves all changes from the write-ahead log into the file that is copied.
    client.prepare('PRAGMA wal_checkpoint(TRUNCATE)').all()
    client.close()
    return readFileSync(path)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Uses a file system in memory if there is enough space: on a disk, most of the time is spent waiting for each commit. */
function directoryRoot(): string {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm')
    return bavail * bsize > 2 ** 30 ? '/dev/shm' : tmpdir()
  } catch {
    return tmpdir()
  }
}

/** Creates a directory with a database file, which is removed at the end. */
async function openWorld(
  connect: (path: string) => TestClient,
  openTemplate: () => Promise<Uint8Array>,
  options: SqliteWorldOptions,
): Promise<SqliteWorld> {
  const { empty = false, withReader = false, ...settings } = options
  const directory = mkdtempSync(join(directoryRoot(), `ackord-sqlite-${ownName()}-`))
  const path = join(directory, 'test.db')
  if (!empty) writeFileSync(path, await openTemplate())
  const opened: TestClient[] = []
  const open = () => {
    const client = connect(path)
    opened.push(client)
    return client
  }
  const client = open()
  const door = new DatabaseSync(path)
  const database = fromSqlite(client, { logger: silentLogger, ...settings, ...(withReader ? { reader: open() } : {}) })
  if (empty) client.exec(createOrders)
  else await validateSchema(database)
  const close = () => {
    for (const one of opened) closeOnce(one)
  }
  const query: SqliteWorld['query'] = (sql, ...parameters) => door.prepare(sql).all(...parameters)
  return {
    path,
    client,
    database,
    connect: open,
    close,
    query,
    count: (table) => Number(query(`SELECT count(*) AS n FROM ${table}`)[0]?.['n']),
    async [Symbol.asyncDispose]() {
      close()
      closeOnce(door)
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Closes a client that the test may have closed already. */
function closeOnce(client: { close(): unknown }): void {
  try {
    client.close()
  } catch {
    // The client was already closed.
  }
}
