import type { EventEmitter } from 'node:events'
import {
  commandHandler,
  defineEvent,
  deterministicIds,
  jsonMarshaler,
  Message,
  marshal,
  Router,
  type Source,
  silentLogger,
} from '@ackord/core'
import { transactional } from '@ackord/sql'
import { createSchema, fromPg, postgresOutbox } from '@ackord/sql/postgres'
import pg from 'pg'
import { rateOf, runRounds } from './rounds.ts'

const url = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'
const schema = `ackord_bench_${process.pid}`
const connections = 16
const rounds = { rounds: 4, count: 4000 }

const placeOrder = defineEvent<{ id: string; total: number }>('order.place')
const orderPlaced = defineEvent<{ orderId: string; total: number }>('order.placed')

let sent = 0

/** Messages as a broker delivers them, each with an id of its own. */
function source(count: number): Source {
  return {
    async *messages() {
      for (let index = 0; index < count; index += 1) {
        sent += 1
        const attributes = { id: `m-${sent}`, source: '/bench', specversion: '1.0' }
        const { data, attributes: complete } = marshal(placeOrder({ id: `o-${sent}`, total: 5 }, attributes), jsonMarshaler)
        yield new Message(data, complete, { acking: { ack() {}, nack: (error) => fail(error), reject: (error) => fail(error) } })
      }
    },
  }
}

function fail(error: unknown): never {
  throw error
}

/** What one writes by hand: the same statements, the same driver, as many connections, the same ids for the events. */
async function byHand(pool: pg.Pool, count: number): Promise<number> {
  const iterator = source(count).messages({ signal: new AbortController().signal })[Symbol.asyncIterator]()
  let done = 0
  const worker = async () => {
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
      const message = next.value
      const order = JSON.parse(new TextDecoder().decode(message.data)) as { id: string; total: number }
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        const inbox = 'INSERT INTO ackord_inbox (consumer, source, id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING'
        const { rowCount } = await client.query(inbox, ['by-hand', message.source, message.id])
        if (rowCount === 1) {
          await client.query('INSERT INTO orders (id, total) VALUES ($1, $2)', [order.id, order.total])
          const id = deterministicIds('by-hand', message.source ?? '', message.id ?? '')('order.placed')
          const attributes = {
            id,
            type: 'order.placed',
            source: '/orders',
            specversion: '1.0',
            time: new Date().toISOString(),
            datacontenttype: 'application/json',
          }
          const event = Buffer.from(JSON.stringify({ orderId: order.id, total: order.total }))
          await client.query(
            `INSERT INTO ackord_outbox (state, destination, id, type, content_type, partition, data, attributes, available_at)
             VALUES ('ready', $1, $2, $3, $4, 0, $5, $6, clock_timestamp())`,
            ['order-events', id, 'order.placed', 'application/json', event, JSON.stringify(attributes)],
          )
        }
        await client.query('COMMIT')
        await message.ack()
        done += 1
      } finally {
        client.release()
      }
    }
  }
  await Promise.all(Array.from({ length: connections }, worker))
  return done
}

async function throughAckord(pool: pg.Pool, count: number): Promise<number> {
  const database = fromPg(pool, { schema })
  const router = new Router({ concurrency: connections, logger: silentLogger })
  router.use(transactional(database, { inbox: { consumer: 'ackord' }, outbox: { destination: 'order-events' } }))
  router.handle(
    commandHandler({ type: placeOrder, source: '/orders' }, async (order) => {
      await database.executor().query('INSERT INTO orders (id, total) VALUES ($1, $2)', [order.id, order.total])
      return [orderPlaced({ orderId: order.id, total: order.total })]
    }),
  )
  await router.run(source(count))
  return router.health().handled
}

type Query = (sql: string, values: unknown[]) => Promise<unknown>

/** What a business transaction does: three statements. */
async function business(query: Query): Promise<void> {
  sent += 1
  const id = `b-${sent}`
  await query('INSERT INTO orders (id, total) VALUES ($1, 0)', [id])
  await query('UPDATE orders SET total = 1 WHERE id = $1', [id])
  await query('SELECT total FROM orders WHERE id = $1', [id])
}

/** Does it over and over, on all connections at once. */
async function repeatedly(count: number, work: () => Promise<void>): Promise<number> {
  let started = 0
  let done = 0
  const worker = async () => {
    while (started < count) {
      started += 1
      await work()
      done += 1
    }
  }
  await Promise.all(Array.from({ length: connections }, worker))
  return done
}

/** A transaction by hand, with or without an event in it. */
async function ownTransaction(pool: pg.Pool, append: ((client: pg.PoolClient) => Promise<void>) | undefined): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await business((sql, values) => client.query(sql, values))
    await append?.(client)
    await client.query('COMMIT')
  } finally {
    client.release()
  }
}

/** What an event costs a business transaction: in `database.write()`, and in one that was begun by hand. */
async function appendOverhead(pool: pg.Pool): Promise<{ readonly written: number; readonly byHand: number }> {
  const database = fromPg(pool, { schema })
  const outbox = postgresOutbox(database)
  const message = marshal(orderPlaced({ orderId: 'o', total: 1 }, { id: 'e', source: '/orders' }), jsonMarshaler)
  const records = [{ destination: 'order-events', message }]
  const rates = await runRounds(
    {
      plain: (count) => rateOf(count, () => repeatedly(count, () => ownTransaction(pool, undefined))),
      written: (count) =>
        rateOf(count, () =>
          repeatedly(count, () =>
            database.write(async (transaction) => {
              await business((sql, values) => transaction.query(sql, values))
              await outbox.append(transaction, records)
            }),
          ),
        ),
      byHand: (count) => rateOf(count, () => repeatedly(count, () => ownTransaction(pool, (client) => outbox.append(client, records)))),
    },
    rounds,
  )
  return { written: rates.plain / rates.written - 1, byHand: rates.plain / rates.byHand - 1 }
}

/** How many round trips a message takes, counted on the wire: the server says once for each that it is ready. */
async function roundTrips(): Promise<number> {
  const pool = new pg.Pool({ connectionString: url, max: 1, options: `-c search_path=${schema}` })
  try {
    const client = await pool.connect()
    let trips = 0
    const { connection } = client as unknown as { connection: EventEmitter }
    connection.on('readyForQuery', () => {
      trips += 1
    })
    client.release()
    const count = 100
    await throughAckord(pool, count)
    return trips / count
  } finally {
    await pool.end()
  }
}

/** Exactly-once handling on PostgreSQL, against the same statements by hand. */
export async function sql(): Promise<Record<string, unknown>> {
  const pool = new pg.Pool({ connectionString: url, max: connections, options: `-c search_path=${schema}` })
  try {
    await pool.query(`CREATE SCHEMA ${schema}`)
    await createSchema(fromPg(pool, { schema }))
    await pool.query('CREATE TABLE orders (id text PRIMARY KEY, total integer NOT NULL)')
    const rates = await runRounds(
      { hand: (count) => rateOf(count, () => byHand(pool, count)), ackord: (count) => rateOf(count, () => throughAckord(pool, count)) },
      rounds,
    )
    const overhead = await appendOverhead(pool)
    return {
      hand_written_per_s: Math.round(rates.hand),
      ackord_per_s: Math.round(rates.ackord),
      ratio: Math.round((rates.ackord / rates.hand) * 100) / 100,
      round_trips: await roundTrips(),
      append_overhead: Math.round(overhead.written * 100) / 100,
      append_overhead_by_hand: Math.round(overhead.byHand * 100) / 100,
    }
  } finally {
    await pool.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
    await pool.end()
  }
}
