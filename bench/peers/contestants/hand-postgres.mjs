// @ts-check
import pg from 'pg'
import { chunksOf, connections } from '../contestant.mjs'
import { insertOrder, insertOrders, insertRequest, inTransaction, openPostgres, postgresUrl } from '../postgres.mjs'

const pollInterval = 500
const groups = 4
const batchSize = 50

const table = `CREATE TABLE messages (
  id bigserial PRIMARY KEY, queue text NOT NULL, data text NOT NULL, created_at timestamptz NOT NULL DEFAULT now()
)`
const index = 'CREATE INDEX ON messages (queue, id)'
const insertMessage = 'INSERT INTO messages (queue, data) VALUES ($1, $2)'
const insertMessages = 'INSERT INTO messages (queue, data) SELECT $1, * FROM unnest($2::text[])'
const claim = `DELETE FROM messages WHERE id IN (
  SELECT id FROM messages WHERE queue = 'orders' ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
) RETURNING data`

/** One message per transaction, on all connections. @type {import('../contestant.mjs').Contestant} */
export const handPostgres = {
  name: 'hand',
  store: 'PostgreSQL',
  settings: `a loop on each of ${connections} connections: BEGIN, DELETE … FOR UPDATE SKIP LOCKED LIMIT 1, order, event, COMMIT; woken by LISTEN, polls every ${pollInterval} ms`,
  measures: ['drain', 'append', 'latency', 'snapshot', 'backlog'],
  against: {
    drain: 'ackord_source',
    append: 'ackord',
    latency: 'ackord_source',
    snapshot: 'ackord_source',
    backlog: 'ackord_source',
  },
  open: (measure) => open(measure, connections, 1),
}

/** @type {import('../contestant.mjs').Contestant} */
export const handPostgresInBatches = {
  name: 'hand_batch',
  store: 'PostgreSQL',
  settings: `the same on ${groups} connections with ${batchSize} messages per transaction, each statement for all of them`,
  measures: ['noop', 'drain'],
  against: { noop: 'ackord', drain: 'ackord_group' },
  open: (measure) => open(measure, groups, batchSize),
}

/** @param {import('../contestant.mjs').Measure} measure @param {number} workers @param {number} size @returns {Promise<import('../contestant.mjs').Session>} */
async function open(measure, workers, size) {
  const world = await openPostgres()
  await world.admin.query(table)
  await world.admin.query(index)
  const pool = world.createPool()
  const listener = new pg.Client(postgresUrl)
  await listener.connect()
  await listener.query(`LISTEN ${world.schema}`)
  const idle = new Idle()
  listener.on('notification', () => idle.wakeOne())
  const insertAndNotify = `WITH message AS (${insertMessage}) SELECT pg_notify('${world.schema}', '')`
  let stopped = false
  /** @type {Promise<void>[]} */
  let running = []

  /** @param {(id: string) => void} onOrder */
  async function work(onOrder) {
    while (!stopped) {
      let found = 0
      await inTransaction(pool, async (client) => {
        const { rows } = await client.query(claim, [size])
        found = rows.length
        const orders = rows.map(({ data }) => JSON.parse(data))
        for (const { id } of orders) onOrder(id)
        if (measure === 'noop') return
        const events = orders.map(({ id, total }) => JSON.stringify({ orderId: id, total }))
        if (size === 1) {
          for (const { id, total } of orders) await client.query(insertOrder, [id, total])
          for (const event of events) await client.query(insertMessage, ['order-events', event])
        } else if (found > 0) {
          await client.query(insertOrders, [orders.map(({ id }) => id), orders.map(({ total }) => total)])
          await client.query(insertMessages, ['order-events', events])
        }
      })
      if (found < size && !stopped) await idle.wait()
    }
  }

  const append = (/** @type {import('../contestant.mjs').Order} */ order) =>
    world.write(async (client) => {
      await client.query(insertRequest, [order.id, order.total])
      await client.query(insertAndNotify, ['orders', JSON.stringify(order)])
    })

  return {
    async fill(orders) {
      for (const chunk of chunksOf(orders, 10_000)) {
        await world.admin.query(insertMessages, ['orders', chunk.map((order) => JSON.stringify(order))])
      }
      await world.vacuum()
    },
    async start(onOrder) {
      stopped = false
      running = Array.from({ length: workers }, () => work(onOrder))
    },
    async stop() {
      stopped = true
      idle.wakeAll()
      await Promise.all(running)
    },
    append,
    send: append,
    orders: () => world.count('SELECT count(*) FROM orders'),
    state: async () => ({
      waiting: await world.count("SELECT count(*) FROM messages WHERE queue = 'orders'"),
      events: await world.count("SELECT count(*) FROM messages WHERE queue = 'order-events'"),
    }),
    async close() {
      await listener.end()
      await pool.end()
      await world.close()
    },
  }
}

/** Workers that found nothing. A notification wakes one of them, or the next one that wants to wait. */
class Idle {
  /** @type {Set<() => void>} */
  #waiting = new Set()
  #notified = 0

  /** @returns {Promise<void>} */
  wait() {
    if (this.#notified > 0) {
      this.#notified -= 1
      return Promise.resolve()
    }
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, pollInterval)
      this.#waiting.add(wake)
    })
  }

  wakeOne() {
    const [first] = this.#waiting
    if (first === undefined) this.#notified += 1
    else first()
  }

  wakeAll() {
    for (const wake of this.#waiting) wake()
  }
}
