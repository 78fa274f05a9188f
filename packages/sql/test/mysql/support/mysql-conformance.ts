import type { SuiteDepth } from '@ackord/testkit/suites'
import { createPool } from 'mysql2/promise'
import type { Database } from '../../../src/index.ts'
import { type OpenSqlWorld, testSqlConformance, testSqlIdempotency, testSqlOrder, testSqlProcesses } from '../../support/sql-conformance.ts'
import { type MysqlWorld, poolOptions } from './mysql-world.ts'

interface ConformanceWorld<Handle> extends Pick<MysqlWorld, 'schema' | 'query' | 'addTables'>, AsyncDisposable {
  readonly database: Database<Handle>
}

/** Sends a statement on a handle, as user code does. */
type Write<Handle, World> = (world: World, handle: Handle, sql: string, values: unknown[]) => Promise<unknown>

/** Runs all suites on MariaDB through one adapter. */
export function testMysqlConformance<Handle, World extends ConformanceWorld<Handle>>(
  name: string,
  open: () => Promise<World>,
  write: Write<Handle, World>,
  depth?: SuiteDepth,
): void {
  // MySQL has no checks at COMMIT that could fail.
  testSqlConformance<Handle>(name, sqlWorld(open, write), { failCommit: false, depth })
}

/** Runs all scenarios for requests with an idempotency key. */
export function testMysqlIdempotency<Handle, World extends ConformanceWorld<Handle>>(
  name: string,
  open: () => Promise<World>,
  write: Write<Handle, World>,
): void {
  testSqlIdempotency<Handle>(name, sqlWorld(open, write))
}

/** Runs all scenarios for processes. */
export function testMysqlProcesses<Handle, World extends ConformanceWorld<Handle>>(
  name: string,
  open: () => Promise<World>,
  write: Write<Handle, World>,
): void {
  testSqlProcesses<Handle>(name, sqlWorld(open, write))
}

/** Runs the suites for order per key. */
export function testMysqlOrder<Handle, World extends ConformanceWorld<Handle>>(
  name: string,
  open: () => Promise<World>,
  write: Write<Handle, World>,
  depth?: SuiteDepth,
): void {
  testSqlOrder<Handle>(name, sqlWorld(open, write), depth)
}

function sqlWorld<Handle, World extends ConformanceWorld<Handle>>(
  open: () => Promise<World>,
  write: Write<Handle, World>,
): OpenSqlWorld<Handle> {
  return async () => {
    const world = await open()
    const { database, schema } = world
    const clock = createPool(poolOptions(schema, 1))
    const earlierBy = (column: string, duration: number) => `${column} = ${column} - INTERVAL ${Math.round(duration * 1000)} MICROSECOND`
    return {
      database,
      tables: {},
      async age(columns, duration) {
        // Locks the tables first: locking row by row could deadlock with the relay's statements.
        await clock.query('LOCK TABLES ackord_outbox WRITE, ackord_relays WRITE, ackord_notes WRITE')
        await clock.query(`UPDATE ackord_outbox SET ${columns.map((column) => earlierBy(column, duration)).join(', ')}`)
        await clock.query(`UPDATE ackord_relays SET ${earlierBy('alive_until', duration)}`)
        await clock.query(`UPDATE ackord_notes SET ${earlierBy('written_at', duration)}`)
        await clock.query('UNLOCK TABLES')
      },
      async ageRequests(duration) {
        // The default isolation would also lock the gaps in which others insert.
        await clock.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')
        await clock.query(`UPDATE ackord_idempotency SET ${earlierBy('lease_until', duration)}, ${earlierBy('expires_at', duration)}`)
      },
      async ageProcesses(duration) {
        await clock.query(`UPDATE ackord_process SET ${earlierBy('expires_at', duration)}`)
      },
      async createEntries() {
        await world.addTables('CREATE TABLE entries (`key` VARCHAR(200) PRIMARY KEY, value VARCHAR(200) NOT NULL)')
      },
      async writeEntry(handle, key, value) {
        await write(world, handle, 'INSERT INTO entries VALUES (?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value)', [key, value])
      },
      send: (handle, sql) => write(world, handle, sql, []),
      async readEntry(key) {
        const [row] = await world.query('SELECT value FROM entries WHERE `key` = ?', [key])
        return row === undefined ? undefined : String(row['value'])
      },
      async [Symbol.asyncDispose]() {
        await clock.end()
        await world[Symbol.asyncDispose]()
      },
    }
  }
}
