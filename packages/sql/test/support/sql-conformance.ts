import { type Context, Message, rootContext, silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import {
  type OpenOutboxWorld,
  type OpenTransactionWorld,
  ResultTable,
  type TransactionWorld,
  testInbox,
  testOutboxStore,
  testRelay,
  testTransaction,
} from '@ackord/testkit'
import { afterAll, describe, it } from 'vitest'
import { type Database, sqlOutbox, type TableOptions, transactional, transactionMiddleware } from '../../src/index.ts'

/** What the suites need of a database, whatever it is. */
interface SqlWorld<Handle> extends AsyncDisposable {
  readonly database: Database<Handle>
  readonly tables: TableOptions
  /** Another way to the same tables, for a second relay. Default: the same. */
  another?(): Database<unknown>
  /** Makes these columns of all outbox rows that many milliseconds earlier, at once. */
  age(columns: readonly string[], duration: number): Promise<void>
  /** Makes a table of entries. Its value must not be null. */
  createEntries(): Promise<void>
  writeEntry(handle: Handle, key: string, value: string | null): Promise<void>
  readEntry(key: string): Promise<string | undefined>
  /** Does what the database finds out only when it commits. */
  failCommit?(handle: Handle): Promise<void>
}

export type OpenSqlWorld<Handle> = () => Promise<SqlWorld<Handle>>

const results = new ResultTable()

afterAll(() => console.log(results.format()))

const transaction = { logger: silentLogger }
const instants = ['created_at', 'available_at', 'lease_until', 'published_at', 'parked_at']

/** All suites on a database. */
export function testSqlConformance<Handle>(
  name: string,
  open: OpenSqlWorld<Handle>,
  { failCommit }: { readonly failCommit: boolean } = { failCommit: true },
): void {
  const runner = { describe, it }
  testTransaction(runner, { name, open: transactionWorld(open), features: { savepoints: true, failCommit }, results })
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

function outboxWorld<Handle>(open: OpenSqlWorld<Handle>): OpenOutboxWorld {
  return async ({ retain }) => {
    const world = await open()
    const { database, tables } = world
    const options = { retain, logger: silentLogger, ...tables }
    const store = sqlOutbox(database, options)
    return {
      store,
      another: async () => sqlOutbox(world.another?.() ?? database, options),
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
      advance: (duration) => world.age(instants, duration),
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

function transactionWorld<Handle>(open: OpenSqlWorld<Handle>): OpenTransactionWorld {
  return async () => {
    const world = await open()
    const { database, tables } = world
    await world.createEntries()
    const opened: TransactionWorld = {
      transaction: () => transactionMiddleware(database, transaction),
      transactional: (consumer) =>
        transactional(database, { inbox: { consumer, ...tables }, outbox: { destination: 'events', ...tables }, transaction }),
      write: (context, key, value) => world.writeEntry(database.executor(context), key, value),
      failWrite: (context) => world.writeEntry(database.executor(context), 'key', null),
      read: (key) => world.readEntry(key),
      async events() {
        const { records } = await sqlOutbox(database, { ...tables, logger: silentLogger }).list({}, { limit: 100 })
        return records.map(({ message }) => message)
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
    const { failCommit } = world
    if (failCommit === undefined) return opened
    return { ...opened, failCommit: (context) => failCommit(database.executor(context)) }
  }
}
