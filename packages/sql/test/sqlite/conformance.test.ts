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
import { sqlOutbox, transactional, transactionMiddleware } from '../../src/index.ts'
import { fromSqlite } from '../../src/sqlite/index.ts'
import { type SqliteKind, sqliteKinds } from './support/sqlite-world.ts'

const results = new ResultTable()
const transaction = { logger: silentLogger }
const instants = ['created_at', 'available_at', 'lease_until', 'published_at', 'parked_at']

function outboxWorld({ open }: SqliteKind): OpenOutboxWorld {
  return async ({ retain }) => {
    const world = await open()
    const { database } = world
    const options = { retain, logger: silentLogger }
    const store = sqlOutbox(database, options)
    return {
      store,
      another: async () => sqlOutbox(fromSqlite(world.connect()), options),
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
        const earlier = instants.map((column) => `${column} = CAST(round(${column} - ${duration}) AS INTEGER)`)
        await database.write(async (handle) => handle.exec(`UPDATE ackord_outbox SET ${earlier.join(', ')}`))
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

function transactionWorld({ open }: SqliteKind): OpenTransactionWorld {
  return async () => {
    const world = await open()
    const { client, database } = world
    client.exec('CREATE TABLE entries (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT')
    client.exec('CREATE TABLE parents (n INTEGER PRIMARY KEY) STRICT')
    client.exec('CREATE TABLE children (n INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED) STRICT')
    const upsert = 'INSERT INTO entries VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value'
    return {
      transaction: () => transactionMiddleware(database, transaction),
      transactional: (consumer) => transactional(database, { inbox: { consumer }, outbox: { destination: 'events' }, transaction }),
      async write(context, key, value) {
        database.executor(context).prepare(upsert).run(key, value)
      },
      async failWrite(context) {
        database.executor(context).prepare(upsert).run('key', null)
      },
      // The database finds out when it commits.
      async failCommit(context) {
        database.executor(context).prepare('INSERT INTO children VALUES (?)').run(17)
      },
      async read(key) {
        const [row] = world.query('SELECT value FROM entries WHERE key = ?', key)
        return row === undefined ? undefined : String(row['value'])
      },
      async events() {
        const { records } = await sqlOutbox(database, { logger: silentLogger }).list({}, { limit: 100 })
        return records.map(({ message }) => message)
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

for (const kind of sqliteKinds) {
  const { name } = kind
  const runner = { describe, it }
  testTransaction(runner, { name, open: transactionWorld(kind), features: { savepoints: true, failCommit: true }, results })
  testInbox(runner, { name, open: transactionWorld(kind), results })
  testOutboxStore(runner, {
    name,
    open: outboxWorld(kind),
    features: { savepoints: true, delay: true, retain: true },
    model: { runs: 10 },
    results,
  })
  testRelay(runner, { name, openStore: outboxWorld(kind), createRelay: (store, setup) => new Relay(store, setup), results })
}

afterAll(() => console.log(results.format()))
