import { type Context, Message, rootContext, silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { deferred } from '@ackord/testkit'
import {
  type IdempotencyProcess,
  type OpenIdempotencyWorld,
  type OpenOutboxTransaction,
  type OpenOutboxWorld,
  type OpenProcessWorld,
  type OpenTransactionWorld,
  type ProcessPeer,
  ResultTable,
  type SuiteDepth,
  type TransactionWorld,
  testIdempotencyStore,
  testInbox,
  testInboxAdmin,
  testOrderedOutbox,
  testOutboxStore,
  testProcessStore,
  testRelay,
  testTransaction,
} from '@ackord/testkit/suites'
import { describe, it } from 'vitest'
import { depthOfOtherClients } from '../../../../scripts/test-depth.mjs'
import { afterEachFile } from '../../../../test/leftovers/after-each-file.ts'
import {
  cleanProcesses,
  type Database,
  type OutboxMode,
  type SqlOutbox,
  type StorageOptions,
  sqlIdempotency,
  sqlInbox,
  sqlOutbox,
  sqlProcesses,
  type TableOptions,
  transactional,
  transactionMiddleware,
} from '../../src/index.ts'

/** The functions that the suites require of every database. */
interface SqlWorld<Handle> extends AsyncDisposable {
  readonly database: Database<Handle>
  readonly tables: TableOptions
  /** Whether transactions run one at a time. Default: false. */
  readonly oneWriter?: boolean | undefined
  /** Opens another client for the same tables, for a second process. Default: the same client. */
  another?(): Database<Handle>
  /** Atomically makes these columns of all outbox rows, and the times of all notes, `duration` milliseconds earlier, and shortens the leases of relays by the same amount. */
  age(columns: readonly string[], duration: number): Promise<void>
  /** Ends the leases and retentions of all requests with an idempotency key `duration` milliseconds earlier. Does not wait for open transactions. */
  ageRequests(duration: number): Promise<void>
  /** Ends the times for which finished processes are remembered `duration` milliseconds earlier. */
  ageProcesses(duration: number): Promise<void>
  /** Creates a table of entries whose value must not be null. */
  createEntries(): Promise<void>
  writeEntry(handle: Handle, key: string, value: string | null): Promise<void>
  readEntry(key: string): Promise<string | undefined>
  /** Sends a statement on a handle, as user code does. */
  send(handle: Handle, sql: string): Promise<unknown>
  /** Causes an error that the database detects only at COMMIT. */
  failCommit?(handle: Handle): Promise<void>
}

export type OpenSqlWorld<Handle> = () => Promise<SqlWorld<Handle>>

let results = new ResultTable()

afterEachFile(() => {
  if (results.rows.length > 0) console.log(results.format())
  results = new ResultTable()
})

const transaction = { logger: silentLogger }
const instants = ['created_at', 'available_at', 'lease_until', 'published_at', 'parked_at']

interface SqlConformanceOptions {
  /** Whether the database can detect an error only at COMMIT. Default: true. */
  readonly failCommit?: boolean | undefined
  /** The depth of the suites for outbox and relay. Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
}

/** Runs all suites on a database. */
export function testSqlConformance<Handle>(
  name: string,
  open: OpenSqlWorld<Handle>,
  { failCommit = true, depth }: SqlConformanceOptions = {},
): void {
  const runner = { describe, it }
  testTransaction(runner, { name, open: transactionWorld(open), features: { savepoints: true, failCommit, commitByHand: true }, results })
  testSqlInbox(name, open)
  testSqlOutbox(name, open, depth)
  // The other scenarios run in test/idempotency, with one client of each database.
  testIdempotencyStore(runner, { name, open: idempotencyWorld(open), features: { concurrentWrites: false }, depth: 'basic', results })
  testRelay(runner, {
    name,
    openStore: outboxWorld(open),
    createRelay: (store, setup) => new Relay(store, setup),
    insight: true,
    depth,
    results,
  })
}

/** Runs the suite for the outbox, without the scenarios with these names. */
export function testSqlOutbox<Handle>(
  name: string,
  open: OpenSqlWorld<Handle>,
  depth?: SuiteDepth,
  storage: StorageOptions = {},
  except: readonly string[] = [],
): void {
  const left = new Set(except)
  const runner = {
    describe: (title: string, body: () => void) =>
      describe(title, () => {
        body()
        if (depth !== 'basic' && left.size > 0) throw new Error(`The suite has no scenarios with these names: ${[...left].join('; ')}`)
      }),
    it: (title: string, body: () => Promise<void>) => (left.delete(title) ? undefined : it(title, body)),
  }
  testOutboxStore(runner, {
    name,
    open: outboxWorld(open, storage),
    features: { savepoints: true, delay: true, retain: true, codecs: true, insight: true },
    model: { runs: 10 },
    depth,
    results,
  })
}

/** Runs the suites for the inbox. */
export function testSqlInbox<Handle>(name: string, open: OpenSqlWorld<Handle>): void {
  const runner = { describe, it }
  testInbox(runner, { name, open: transactionWorld(open), results })
  testInboxAdmin(runner, { name, open: transactionWorld(open), searches: true, results })
}

/** Runs all scenarios for requests with an idempotency key. */
export function testSqlIdempotency<Handle>(
  name: string,
  open: OpenSqlWorld<Handle>,
  { concurrentWrites = true }: { readonly concurrentWrites?: boolean } = {},
): void {
  testIdempotencyStore({ describe, it }, { name, open: idempotencyWorld(open), features: { concurrentWrites }, results })
}

/** Runs all scenarios for processes. */
export function testSqlProcesses<Handle>(name: string, open: OpenSqlWorld<Handle>, depth?: SuiteDepth): void {
  testProcessStore({ describe, it }, { name, open: processWorld(open), depth, results })
}

/**
 * Runs the suites for order per key on a database that supports it. The relay's scenarios have passed on the same database without order, so in `make test` all of
 * them run on one database only.
 */
export function testSqlOrder<Handle>(
  name: string,
  open: OpenSqlWorld<Handle>,
  depth?: SuiteDepth,
  relayDepth: SuiteDepth = depthOfOtherClients,
  mode: OutboxMode = 'table',
): void {
  const runner = { describe, it }
  const openStore = outboxWorld(open, { order: 'perKey', mode })
  testOrderedOutbox(runner, { name, open: openStore, depth, results })
  testRelay(runner, {
    name: `${name}, order per key`,
    openStore,
    createRelay: (store, setup) => new Relay(store, setup),
    depth: relayDepth,
    results,
  })
}

function idempotencyWorld<Handle>(open: OpenSqlWorld<Handle>): OpenIdempotencyWorld {
  return async () => {
    const world = await open()
    const { tables } = world
    await world.createEntries()
    const outbox = sqlOutbox(world.database, { ...tables, logger: silentLogger })

    function processOn(database: Database<Handle>): IdempotencyProcess {
      const own = sqlOutbox(database, { ...tables, logger: silentLogger })
      return {
        store: sqlIdempotency(database, tables),
        // The transaction is one of this database.
        put: ({ transaction: handle }, key, value) => world.writeEntry(handle as Handle, key, value),
        append: ({ transaction: handle }, events) => own.append(handle as Handle, events),
      }
    }

    return {
      ...processOn(world.database),
      another: async () => processOn(world.another?.() ?? world.database),
      read: (key) => world.readEntry(key),
      events: async () => (await outbox.list({}, { limit: 100 })).records.map(({ message }) => message),
      advance: (duration) => world.ageRequests(duration),
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

function processWorld<Handle>(open: OpenSqlWorld<Handle>): OpenProcessWorld {
  return async () => {
    const world = await open()
    const { tables } = world
    const outbox = sqlOutbox(world.database, { ...tables, logger: silentLogger })
    const peerOn = (database: Database<Handle>): ProcessPeer => ({
      store: sqlProcesses(database, tables),
      transactional: (consumer) =>
        transactional(database, { inbox: { consumer, ...tables }, outbox: { destination: 'commands', ...tables }, transaction }),
    })
    return {
      ...peerOn(world.database),
      another: async () => peerOn(world.another?.() ?? world.database),
      records: async () => (await outbox.list({}, { limit: 1000 })).records,
      advance: (duration) => world.ageProcesses(duration),
      clean: () => cleanProcesses(world.database, tables),
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

function outboxWorld<Handle>(open: OpenSqlWorld<Handle>, storage: StorageOptions = {}): OpenOutboxWorld {
  return async ({ retain, codecs }) => {
    const world = await open()
    const { database, tables } = world
    const options = { retain, codecs, logger: silentLogger, ...storage, ...tables }
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
      ...(world.oneWriter === true ? {} : { openTransaction: () => openTransaction(database, store) }),
      advance: (duration) => world.age(instants, duration),
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

/** Opens a transaction that stays open until the test commits it or rolls it back. */
async function openTransaction<Handle>(database: Database<Handle>, store: SqlOutbox<Handle>): Promise<OpenOutboxTransaction> {
  const begun = deferred<Handle>()
  const end = deferred<void>()
  const ended = database.write(async (transaction) => {
    begun.resolve(transaction)
    await end.promise
  })
  const transaction = await Promise.race([begun.promise, ended.then(() => begun.promise)])
  return {
    append: (records) => store.append(transaction, records),
    async commit() {
      end.resolve()
      await ended
    },
    async rollback() {
      end.reject(new Error('rolled back'))
      await ended.catch(() => {})
    },
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
      commitByHand: async (context) => void (await world.send(database.executor(context), '/* by hand */ COMMIT')),
      inbox: sqlInbox(database, { ...tables, logger: silentLogger }),
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
