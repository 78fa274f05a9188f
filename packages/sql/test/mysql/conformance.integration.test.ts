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
import { createPool } from 'mysql2/promise'
import { afterAll, describe, it } from 'vitest'
import { sqlOutbox, transactional, transactionMiddleware } from '../../src/index.ts'
import { type MysqlKind, mysqlKinds, poolOptions } from './support/mysql-world.ts'

const results = new ResultTable()
const transaction = { logger: silentLogger }
const instants = ['created_at', 'available_at', 'lease_until', 'published_at', 'parked_at']

function outboxWorld({ open }: MysqlKind): OpenOutboxWorld {
  return async ({ retain }) => {
    const world = await open()
    const { database, schema } = world
    const create = () => sqlOutbox(database, { retain, logger: silentLogger })
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
        const earlier = instants.map((column) => `${column} = ${column} - INTERVAL ${Math.round(duration * 1000)} MICROSECOND`)
        const pool = createPool(poolOptions(schema, 1))
        // The lock first: row by row it would meet the relay's statements halfway, and the server would see a deadlock.
        await pool.query('LOCK TABLES ackord_outbox WRITE')
        await pool.query(`UPDATE ackord_outbox SET ${earlier.join(', ')}`)
        await pool.query('UNLOCK TABLES')
        await pool.end()
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

function transactionWorld({ open }: MysqlKind): OpenTransactionWorld {
  return async () => {
    const world = await open()
    const { database } = world
    await world.query('CREATE TABLE entries (`key` VARCHAR(200) PRIMARY KEY, value VARCHAR(200) NOT NULL)')
    const upsert = 'INSERT INTO entries VALUES (?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value)'
    return {
      transaction: () => transactionMiddleware(database, transaction),
      transactional: (consumer) => transactional(database, { inbox: { consumer }, outbox: { destination: 'events' }, transaction }),
      async write(context, key, value) {
        await database.executor(context).query(upsert, [key, value])
      },
      async failWrite(context) {
        await database.executor(context).execute(upsert, ['key', null])
      },
      async read(key) {
        const [row] = await world.query('SELECT value FROM entries WHERE `key` = ?', [key])
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

for (const kind of mysqlKinds) {
  const { name } = kind
  const runner = { describe, it }
  // Nothing is checked at COMMIT on MySQL that could fail it.
  testTransaction(runner, { name, open: transactionWorld(kind), features: { savepoints: true, failCommit: false }, results })
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
