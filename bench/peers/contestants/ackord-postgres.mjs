// @ts-check
import { silentLogger } from '@ackord/core'
import { createSchema, sqlOutbox, transactional } from '@ackord/sql'
import { fromPg, pgNotifications } from '@ackord/sql/postgres'
import pg from 'pg'
import { commands, events, recordOf, startHandling } from '../ackord.mjs'
import { chunksOf, connections } from '../contestant.mjs'
import { insertOrder, insertRequest, openPostgres, postgresUrl } from '../postgres.mjs'

const group = { size: 50, groups: 4 }

/** @type {import('../contestant.mjs').Contestant} */
export const ackordRelay = {
  name: 'ackord',
  store: 'PostgreSQL',
  settings: `Relay into the in-memory broker, transactional() with inbox and outbox, concurrency: ${connections} on a pool of ${connections}; notify: true and pgNotifications()`,
  measures: ['noop', 'drain', 'append', 'latency'],
  open: (measure) => open({ way: 'relay', measure }),
}

/** @type {import('../contestant.mjs').Contestant} */
export const ackordSource = {
  name: 'ackord_source',
  store: 'PostgreSQL',
  settings: 'the same with outboxSource() instead of relay and broker',
  measures: ['noop', 'drain', 'latency', 'snapshot', 'backlog'],
  open: (measure) => open({ way: 'source', measure }),
}

/** @type {import('../contestant.mjs').Contestant} */
export const ackordGroups = {
  name: 'ackord_group',
  store: 'PostgreSQL',
  settings: `outboxSource() with groupCommit: { size: ${group.size}, groups: ${group.groups} } and concurrency: ${group.size * group.groups}`,
  measures: ['drain', 'backlog'],
  open: (measure) => open({ way: 'source', measure, groupCommit: group }),
}

/**
 * @param {{ way: import('../ackord.mjs').Way, measure: import('../contestant.mjs').Measure, groupCommit?: typeof group }} options
 * @returns {Promise<import('../contestant.mjs').Session>}
 */
async function open({ way, measure, groupCommit }) {
  const world = await openPostgres()
  const pool = world.createPool()
  const database = fromPg(pool, { logger: silentLogger })
  await createSchema(database)
  const outbox = sqlOutbox(database, { notifications: pgNotifications(() => new pg.Client(postgresUrl)), logger: silentLogger })
  // Writers have a pool of their own, as in another process.
  const writing = fromPg(world.writers, { notify: true, logger: silentLogger })
  const written = sqlOutbox(writing, { logger: silentLogger })
  const concurrency = groupCommit === undefined ? connections : groupCommit.size * groupCommit.groups
  let stop = async () => {}

  const append = (/** @type {import('../contestant.mjs').Order} */ order) =>
    writing.write(async (transaction) => {
      await transaction.query(insertRequest, [order.id, order.total])
      await written.append(transaction, [recordOf(order)])
    })

  return {
    async fill(orders) {
      for (const chunk of chunksOf(orders, 1000)) await database.write((transaction) => outbox.append(transaction, chunk.map(recordOf)))
      await world.vacuum()
    },
    async start(onOrder) {
      const middleware = transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: events }, groupCommit })
      const save = (/** @type {import('../contestant.mjs').Order} */ { id, total }) => database.executor().query(insertOrder, [id, total])
      stop = startHandling(outbox, { way, measure, concurrency, middleware, save, onOrder })
    },
    stop: () => stop(),
    append,
    send: append,
    orders: () => world.count('SELECT count(*) FROM orders'),
    state: async () => ({
      waiting: await world.count(`SELECT count(*) FROM ackord_outbox WHERE destination = '${commands}'`),
      events: await world.count(`SELECT count(*) FROM ackord_outbox WHERE destination = '${events}'`),
    }),
    async close() {
      await pool.end()
      await world.close()
    },
  }
}
