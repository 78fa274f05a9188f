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
import { transactional, transactionMiddleware } from '../src/index.ts'
import { postgresOutbox } from '../src/postgres/index.ts'
import { type World, worldKinds } from './support/world.ts'

const results = new ResultTable()
const transaction = { logger: silentLogger }
const instants = ['created_at', 'available_at', 'lease_until', 'published_at', 'parked_at']

function outboxWorld(open: () => Promise<World>): OpenOutboxWorld {
  return async ({ retain }) => {
    const world = await open()
    const { database, schema } = world
    const create = () => postgresOutbox(database, { retain, logger: silentLogger, schema })
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

function transactionWorld(open: () => Promise<World>): OpenTransactionWorld {
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
        await database.executor(context).query(upsert, [key, value])
      },
      async failWrite(context) {
        await database.executor(context).query(upsert, ['key', null])
      },
      // The database finds out when it commits.
      async failCommit(context) {
        await database.executor(context).query(`INSERT INTO ${schema}.children VALUES ($1)`, [17])
      },
      async read(key) {
        const [row] = await world.query(`SELECT value FROM ${schema}.entries WHERE key = $1`, [key])
        return row === undefined ? undefined : String(row['value'])
      },
      async events() {
        const { records } = await postgresOutbox(database, { schema, logger: silentLogger }).list({}, { limit: 100 })
        return records.map(({ message }) => message)
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

for (const { name, open } of worldKinds) {
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

afterAll(() => console.log(results.format()))
