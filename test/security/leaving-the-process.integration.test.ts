import { inspect } from 'node:util'
import { type Context, MemoryBroker, Message, type Metrics, type Middleware, type RawMessage, Router, systemRuntime } from '@ackord/core'
import { deadLetterOf } from '@ackord/core/internal'
import { httpPublisher } from '@ackord/http'
import { MemoryOutboxStore, Relay } from '@ackord/outbox'
import { createSchema, transactional } from '@ackord/sql'
import { fromMysql2 } from '@ackord/sql/mysql'
import { fromPg } from '@ackord/sql/postgres'
import { deferred, sourceOf, trackedMessage } from '@ackord/testkit'
import { createPool } from 'mysql2/promise'
import { describe, expect, it, vi } from 'vitest'
import { serve } from '../../packages/http/test/support/world.ts'
import { openDoor, poolOptions } from '../../packages/sql/test/mysql/support/mysql-world.ts'
import { openSchema } from '../../packages/sql/test/support/own-schema.ts'
import { expectNoSecrets, password, payload, telling } from './secrets.ts'

vi.setConfig({ testTimeout: 60_000 })

describe('a destination that is a URL reveals only', () => {
  it('scheme, host and path in log lines, metric labels, lastError and dead letters', async () => {
    const told = telling()
    const metrics: Metrics = {
      count: (...call) => told.hear(call),
      observe: (...call) => told.hear(call),
      gauge: (...call) => told.hear(call),
    }
    await using server = await serve((request, response) => {
      request.resume()
      response.writeHead(request.url?.startsWith('/down') === true ? 503 : 422).end()
    })
    const { host } = new URL(server.url)
    const store = new MemoryOutboxStore()
    const letters = new MemoryBroker()
    const destinations = ['/refused', '/down'].map((path) => `http://user:${password}@${host}${path}?token=${password}`)
    const message = (id: string) =>
      new Message(new TextEncoder().encode(payload), { id, type: 'order.placed', source: '/shop', specversion: '1.0' })
    const transaction = store.begin()
    await store.append(
      transaction,
      destinations.map((destination, index) => ({ destination, message: message(`m-${index}`) })),
    )
    await transaction.commit()
    const parked = deferred()
    const down = deferred()
    await using publisher = httpPublisher()
    await using _relay = new Relay(store, {
      publisher,
      metrics,
      logger: told.logger,
      statsInterval: 20,
      deadLetter: { publisher: letters, destination: 'letters' },
      onEvent: ({ type }) => {
        if (type === 'parked') parked.resolve()
        if (type === 'destinationDown') down.resolve()
      },
    }).start()
    await Promise.all([parked.promise, down.promise])
    const letter = await letters
      .source('letters')
      .messages({ signal: AbortSignal.timeout(10_000) })
      [Symbol.asyncIterator]()
      .next()
    told.hear(letter.value?.attributes)
    const { records } = await store.list({}, { limit: 10 })
    for (const { lastError } of records) told.hear(lastError)
    expect(letter.value?.attributes['deadletterdestination']).toBe(`http://${host}/refused?…`)
    expect(told.heard()).toContain(`http://${host}/down?…`)
    expectNoSecrets(told.heard())
  })
})

/** Statements that fail with an error that quotes the written values. */
const failing: readonly [name: string, run: (query: Query) => Promise<unknown>][] = [
  ['a unique constraint', (query) => query(`INSERT INTO customer VALUES ('${payload}', 5), ('${payload}', 6)`)],
  ['a check', (query) => query(`INSERT INTO customer VALUES ('${payload}', -1)`)],
  ['a value of the wrong form', (query) => query(`INSERT INTO customer VALUES ('a', '${payload}')`)],
  ['a syntax error', (query) => query(`INSERT INTO customer VALUES ('${payload}', 5) ${payload}`)],
]

type Query = (sql: string) => Promise<unknown>

/** Makes handlers fail with the database's own errors. */
async function failInHandlers(middleware: Middleware, query: (context: Context) => Query): Promise<void> {
  const told = telling()
  const letters: unknown[] = []
  const errors: unknown[] = []
  for (const [name, run] of failing) {
    const router = new Router({ source: '/shop', logger: told.logger, onError: () => 'reject' }).use(middleware).handle({
      type: 'order.place',
      async handle(_message, context) {
        await run(query(context)).catch((error: unknown) => {
          errors.push(error)
          throw error
        })
        return []
      },
    })
    const { message, calls } = trackedMessage(name, { data: { secret: payload } })
    await router.run(sourceOf({ message }))
    const [call] = calls
    expect(call?.verdict).toBe('reject')
    letters.push(deadLetterOf(message as RawMessage, call?.error, systemRuntime).attributes)
  }
  // The original errors do quote the payload; the handler receives them unchanged.
  expect(inspect(errors, { depth: 5 })).toContain(payload)
  told.hear(letters)
  expectNoSecrets(told.heard())
}

describe('database errors that quote a row appear in no log line and no dead letter', () => {
  it('on PostgreSQL', async () => {
    await using own = await openSchema()
    const pool = own.createPool()
    const database = fromPg(pool)
    await createSchema(database)
    await own.query('CREATE TABLE customer (email text PRIMARY KEY, age integer CHECK (age > 0))')
    await failInHandlers(
      transactional(database, { inbox: { consumer: 'shop' }, outbox: { destination: 'events' } }),
      (context) => (sql) => database.executor(context, { required: true }).query(sql),
    )
    await pool.end()
  })

  it('on MariaDB', async () => {
    const door = await openDoor()
    const pool = createPool(poolOptions(door.schema, 5))
    const database = fromMysql2(pool)
    await createSchema(database)
    await door.query('CREATE TABLE customer (email varchar(100) PRIMARY KEY, age integer CHECK (age > 0))')
    await failInHandlers(
      transactional(database, { inbox: { consumer: 'shop' }, outbox: { destination: 'events' } }),
      (context) => (sql) => database.executor(context, { required: true }).query(sql),
    )
    await pool.end()
    await door.close()
  })
})
