import { type Context, Message, rootContext, silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import {
  type OpenOutboxWorld,
  type OpenTransactionWorld,
  ResultTable,
  testInbox,
  testOutboxStore,
  testRelay,
  testTransaction,
} from '@ackord/testkit'
import { afterAll, describe, it } from 'vitest'
import { type Database, sqlOutbox, transactional, transactionMiddleware } from '../../src/index.ts'
import type { View } from './own-schema.ts'

export interface ConformanceWorld<Handle> extends View, AsyncDisposable {
  readonly database: Database<Handle>
  /** A statement on a handle, as its users would send it. Gives its rows. */
  run(handle: Handle, text: string, parameters: unknown[]): Promise<readonly Record<string, unknown>[]>
}

export type OpenConformanceWorld<Handle> = () => Promise<ConformanceWorld<Handle>>

const results = new ResultTable()

afterAll(() => console.log(results.format()))

const transaction = { logger: silentLogger }
const instants = ['created_at', 'available_at', 'lease_until', 'published_at', 'parked_at']

/** All suites on PostgreSQL through one adapter. */
export function testConformance<Handle>(name: string, open: OpenConformanceWorld<Handle>): void {
  const runner = { describe, it }
  testTransaction(runner, { name, open: transactionWorld(open), features: { savepoints: true, failCommit: true }, results })
  testInbox(runner, { name, open: transactionWorld(open), results })
  testOutboxStore(runner, {
    name,
    open: outboxWorld(open),
    features: { savepoints: true, delay: true, retain: true },
    model: { runs: 10 },
    results,
  })
  testRelay(runner, { name, openStore: outboxWorld(open), createRelay: (store, setup) => new Relay(store, setup), results })
}

function outboxWorld<Handle>(open: OpenConformanceWorld<Handle>): OpenOutboxWorld {
  return async ({ retain }) => {
    const world = await open()
    const { database, schema } = world
    const create = () => sqlOutbox(database, { retain, logger: silentLogger, schema })
    const store = create()
    return {
      store,
      another: async () => create(),
      async transaction(work) {
        const begin = transactionMiddleware(database, transaction)
        const message = new Message(null, { id: 'm-1', type: 'test', source: '/test' })
        await begin(async (_message, context) => {
          let current: Context = context
          await work({
            append: (records) => store.append(database.executor(current, { required: true }), records),
            async savepoint(inside) {
              const outer = current
              const nested = begin(async (_nested, inner) => {
                current = inner
                await inside()
                return []
              })
              try {
                await nested(message, outer)
              } finally {
                current = outer
              }
            },
          })
          return []
        })(message, message.context(rootContext()))
      },
      async advance(duration) {
        const earlier = instants.map((column) => `${column} = ${column} - make_interval(secs => ${duration} / 1000.0)`)
        const table = `${schema}.ackord_outbox`
        // The lock first: row by row it would meet the relay's statements halfway, and the server would see a deadlock.
        await world.query(`DO $$ BEGIN LOCK TABLE ${table} IN EXCLUSIVE MODE; UPDATE ${table} SET ${earlier.join(', ')}; END $$`)
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

function transactionWorld<Handle>(open: OpenConformanceWorld<Handle>): OpenTransactionWorld {
  return async () => {
    const world = await open()
    const { database, schema } = world
    await world.query(`CREATE TABLE ${schema}.entries (key text PRIMARY KEY, value text NOT NULL)`)
    await world.query(`CREATE TABLE ${schema}.parents (n int PRIMARY KEY)`)
    await world.query(`CREATE TABLE ${schema}.children (n int REFERENCES ${schema}.parents DEFERRABLE INITIALLY DEFERRED)`)
    const upsert = `INSERT INTO ${schema}.entries VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`
    return {
      transaction: () => transactionMiddleware(database, transaction),
      transactional: (consumer) =>
        transactional(database, { inbox: { consumer, schema }, outbox: { destination: 'events', schema }, transaction }),
      async write(context, key, value) {
        await world.run(database.executor(context), upsert, [key, value])
      },
      async failWrite(context) {
        await world.run(database.executor(context), upsert, ['key', null])
      },
      // The database finds out when it commits.
      async failCommit(context) {
        await world.run(database.executor(context), `INSERT INTO ${schema}.children VALUES ($1)`, [17])
      },
      async read(key) {
        const [row] = await world.query(`SELECT value FROM ${schema}.entries WHERE key = $1`, [key])
        return row === undefined ? undefined : String(row['value'])
      },
      async events() {
        const { records } = await sqlOutbox(database, { schema, logger: silentLogger }).list({}, { limit: 100 })
        return records.map(({ message }) => message)
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}
