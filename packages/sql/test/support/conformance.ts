import type { SuiteDepth } from '@ackord/testkit/suites'
import type { Database, OutboxMode } from '../../src/index.ts'
import type { View } from './own-schema.ts'
import type { LastingTables } from './pooled-schema.ts'
import {
  type OpenSqlWorld,
  testSqlConformance,
  testSqlIdempotency,
  testSqlInbox,
  testSqlOrder,
  testSqlOutbox,
  testSqlProcesses,
} from './sql-conformance.ts'

export interface ConformanceWorld<Handle> extends View, Pick<LastingTables, 'addTables'>, AsyncDisposable {
  readonly database: Database<Handle>
  readonly oneWriter?: boolean | undefined
  another?(): Database<Handle>
  /** Sends a statement on a handle, as user code does, and resolves to its rows. */
  run(handle: Handle, text: string, parameters: unknown[]): Promise<readonly Record<string, unknown>[]>
}

export type OpenConformanceWorld<Handle> = () => Promise<ConformanceWorld<Handle>>

/** Runs all suites on PostgreSQL through one adapter. */
export function testConformance<Handle>(name: string, open: OpenConformanceWorld<Handle>, depth?: SuiteDepth): void {
  testSqlConformance<Handle>(name, sqlWorld(open), { depth })
}

/** Runs the suite for the outbox in log mode, without the scenarios with these names. */
export function testLogOutbox<Handle>(
  name: string,
  open: OpenConformanceWorld<Handle>,
  depth: SuiteDepth,
  except: readonly string[],
): void {
  testSqlOutbox<Handle>(name, sqlWorld(open), depth, { mode: 'log' }, except)
}

/** Runs the suites for the inbox. */
export function testInboxConformance<Handle>(name: string, open: OpenConformanceWorld<Handle>): void {
  testSqlInbox<Handle>(name, sqlWorld(open))
}

/** Runs all scenarios for requests with an idempotency key. */
export function testIdempotency<Handle>(name: string, open: OpenConformanceWorld<Handle>): void {
  testSqlIdempotency<Handle>(name, sqlWorld(open))
}

/** Runs all scenarios for processes. */
export function testProcesses<Handle>(name: string, open: OpenConformanceWorld<Handle>): void {
  testSqlProcesses<Handle>(name, sqlWorld(open))
}

/** Runs the suites for order per key. */
export function testOrder<Handle>(name: string, open: OpenConformanceWorld<Handle>, depth: SuiteDepth, mode?: OutboxMode): void {
  testSqlOrder<Handle>(name, sqlWorld(open), depth, depth, mode)
}

function sqlWorld<Handle>(open: OpenConformanceWorld<Handle>): OpenSqlWorld<Handle> {
  return async () => {
    const world = await open()
    const { database, schema } = world
    return {
      database,
      tables: { schema },
      oneWriter: world.oneWriter,
      ...(world.another === undefined ? {} : { another: world.another }),
      async age(columns, duration) {
        const earlier = columns.map((column) => `${column} = ${column} - make_interval(secs => ${duration} / 1000.0)`)
        const table = `${schema}.ackord_outbox`
        // Locks the tables first: locking row by row could deadlock with the relay's statements.
        await world.query(`DO $$ BEGIN LOCK TABLE ${schema}.ackord_relays, ${table}, ${schema}.ackord_notes IN EXCLUSIVE MODE;
          UPDATE ${table} SET ${earlier.join(', ')};
          UPDATE ${schema}.ackord_log SET created_at = created_at - make_interval(secs => ${duration} / 1000.0);
          UPDATE ${schema}.ackord_relays SET alive_until = alive_until - make_interval(secs => ${duration} / 1000.0);
          UPDATE ${schema}.ackord_notes SET written_at = written_at - make_interval(secs => ${duration} / 1000.0); END $$`)
      },
      async ageRequests(duration) {
        const earlierBy = (column: string) => `${column} = ${column} - make_interval(secs => ${duration} / 1000.0)`
        await world.query(`UPDATE ${schema}.ackord_idempotency SET ${earlierBy('lease_until')}, ${earlierBy('expires_at')}`)
      },
      async ageProcesses(duration) {
        await world.query(`UPDATE ${schema}.ackord_process SET expires_at = expires_at - make_interval(secs => ${duration} / 1000.0)`)
      },
      async createEntries() {
        await world.addTables(
          `CREATE TABLE ${schema}.entries (key text PRIMARY KEY, value text NOT NULL)`,
          `CREATE TABLE ${schema}.entry_parents (n int PRIMARY KEY)`,
          `CREATE TABLE ${schema}.entry_children (n int REFERENCES ${schema}.entry_parents DEFERRABLE INITIALLY DEFERRED)`,
        )
      },
      async writeEntry(handle, key, value) {
        const upsert = `INSERT INTO ${schema}.entries VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`
        await world.run(handle, upsert, [key, value])
      },
      async readEntry(key) {
        const [row] = await world.query(`SELECT value FROM ${schema}.entries WHERE key = $1`, [key])
        return row === undefined ? undefined : String(row['value'])
      },
      send: (handle, sql) => world.run(handle, sql, []),
      async failCommit(handle) {
        await world.run(handle, `INSERT INTO ${schema}.entry_children VALUES ($1)`, [17])
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}
