// @ts-check
// The worlds of the suites on a SQL database, and a service on it.
import { Message, rootContext, silentLogger } from '@ackord/core'
import { createSchema, sqlInbox, sqlOutbox, transactional, transactionMiddleware } from '@ackord/sql'
import { createService } from '@ackord/sql/service'
import * as suites from '@ackord/testkit/suites'
import { testService } from './service.mjs'

/**
 * A database that is empty except for the tables.
 *
 * @typedef {object} SqlWorld
 * @property {import('@ackord/sql').Database<any>} database
 * @property {() => import('@ackord/sql').Database<any>} another on the same tables, as in another process
 * @property {(columns: readonly string[], duration: number) => Promise<void>} age makes these columns of the outbox earlier, and shortens the leases of relays
 * @property {(handle: any, key: string, value: string | null) => Promise<void>} writeEntry
 * @property {(key: string) => Promise<string | undefined>} readEntry
 * @property {(handle: any, sql: string) => Promise<unknown>} send
 * @property {((handle: any) => Promise<void>) | undefined} [failCommit]
 * @property {() => Promise<void>} close
 */

const instants = ['created_at', 'available_at', 'lease_until', 'published_at', 'parked_at']
const transaction = { logger: silentLogger }

/**
 * @param {import('./checks.mjs').Checks} checks
 * @param {string} name
 * @param {() => Promise<SqlWorld>} open
 * @param {{ failCommit: boolean }} features
 */
export function testSql(checks, name, open, { failCommit }) {
  const worlds = transactionWorlds(open)
  testService(checks, name, async () => {
    const { database, writeEntry, readEntry, close } = await open()
    return {
      createService: (options) => createService({ ...options, database, outbox: { order: 'perKey' } }),
      save: (key) => writeEntry(database.executor(), key, 'saved'),
      isSaved: async (key) => (await readEntry(key)) !== undefined,
      close,
    }
  })
  suites.testTransaction(checks, { name, open: worlds, features: { savepoints: true, failCommit, commitByHand: true } })
  suites.testInbox(checks, { name, open: worlds })
  const features = { savepoints: true, delay: true, retain: true, codecs: true, insight: true }
  suites.testOutboxStore(checks, { name, open: outboxWorlds(open, 'none'), features, depth: 'basic' })
  suites.testOrderedOutbox(checks, { name, open: outboxWorlds(open, 'perKey'), depth: 'basic' })
}

/** @param {() => Promise<SqlWorld>} open @returns {import('@ackord/testkit/suites').OpenTransactionWorld} */
function transactionWorlds(open) {
  return async () => {
    const { database, writeEntry, readEntry, send, failCommit, close } = await open()
    return {
      transaction: () => transactionMiddleware(database, transaction),
      transactional: (consumer) => transactional(database, { inbox: { consumer }, outbox: { destination: 'events' }, transaction }),
      write: (context, key, value) => writeEntry(database.executor(context), key, value),
      failWrite: (context) => writeEntry(database.executor(context), 'key', null),
      commitByHand: async (context) => void (await send(database.executor(context), '/* by hand */ COMMIT')),
      inbox: sqlInbox(database, { logger: silentLogger }),
      read: readEntry,
      async events() {
        const { records } = await sqlOutbox(database, { logger: silentLogger }).list({}, { limit: 100 })
        return records.map(({ message }) => message)
      },
      ...(failCommit === undefined ? {} : { failCommit: (context) => failCommit(database.executor(context)) }),
      [Symbol.asyncDispose]: close,
    }
  }
}

/** @param {() => Promise<SqlWorld>} open @param {'none' | 'perKey'} order @returns {import('@ackord/testkit/suites').OpenOutboxWorld} */
function outboxWorlds(open, order) {
  return async ({ retain, codecs }) => {
    const { database, another, age, close } = await open()
    const options = { retain, codecs, order, logger: silentLogger }
    const store = sqlOutbox(database, options)
    return {
      store,
      another: async () => sqlOutbox(another(), options),
      async transaction(work) {
        const begin = transactionMiddleware(database, transaction)
        const message = new Message(null, { id: 'm-1', type: 'test', source: '/test' })
        await begin(async (_message, context) => {
          let current = context
          await work({
            append: (records) => store.append(database.executor(current, { required: true }), records),
            cancel: (references) => store.cancel(database.executor(current, { required: true }), references),
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
      advance: (duration) => age(instants, duration),
      [Symbol.asyncDispose]: close,
    }
  }
}

/**
 * Schemas that worlds use one after another, because creating tables takes much longer than deleting rows.
 *
 * @param {object} server
 * @param {(schema: string) => Promise<void>} server.create
 * @param {(schema: string) => import('@ackord/sql').Database<any>} server.connect
 * @param {(schema: string) => Promise<readonly string[]>} server.filled the tables that have rows
 * @param {(schema: string, tables: readonly string[]) => Promise<void>} server.empty deletes all rows
 */
export function schemaPool({ create, connect, filled, empty }) {
  /** @type {{ schema: string, lasting: readonly string[] }[]} */
  const free = []
  let count = 0

  async function add() {
    count += 1
    const schema = `${process.env['NAME']}_${count}`
    await create(schema)
    await createSchema(connect(schema))
    return { schema, lasting: await filled(schema) }
  }

  /** Resolves to an empty schema, and to the function that returns it. */
  return async () => {
    const taken = free.pop() ?? (await add())
    const { schema, lasting } = taken
    const close = async () => {
      const tables = (await filled(schema)).filter((table) => !lasting.includes(table))
      await empty(schema, tables)
      free.push(taken)
    }
    return { schema, close }
  }
}
