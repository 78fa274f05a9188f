// @ts-check
import { Router, silentLogger } from '@ackord/core'
import { createSchema, sqlOutbox, transactional } from '@ackord/sql'
import { fromPg, pgNotifications } from '@ackord/sql/postgres'
import pg from 'pg'
import { commands, connect, events, orderHandler, recordOf } from '../ackord.mjs'
import { chunksOf, connections } from '../contestant.mjs'
import { insertOrder, insertRequest, openPostgres, postgresUrl } from '../postgres.mjs'

const group = { size: 50, groups: 4 }

/** @type {import('../contestant.mjs').Contestant} */
export const ackordRelay = {
  name: 'ackord',
  store: 'PostgreSQL',
  settings: `Relay into the in-memory broker, transactional() with inbox and outbox, concurrency: ${connections} on a pool of ${connections}; notify: true and pgNotifications()`,
  measures: ['drain', 'append', 'latency'],
  open: () => open({ way: 'relay' }),
}

/** @type {import('../contestant.mjs').Contestant} */
export const ackordSource = {
  name: 'ackord_source',
  store: 'PostgreSQL',
  settings: 'the same with outboxSource() instead of relay and broker',
  measures: ['drain', 'latency'],
  open: () => open({ way: 'source' }),
}

/** @type {import('../contestant.mjs').Contestant} */
export const ackordGroups = {
  name: 'ackord_group',
  store: 'PostgreSQL',
  settings: `outboxSource() with groupCommit: { size: ${group.size}, groups: ${group.groups} } and concurrency: ${group.size * group.groups}`,
  measures: ['drain'],
  open: () => open({ way: 'source', groupCommit: group }),
}

/**
 * @param {{ way: import('../ackord.mjs').Way, groupCommit?: typeof group }} options
 * @returns {Promise<import('../contestant.mjs').Session>}
 */
async function open({ way, groupCommit }) {
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
      const router = new Router({ concurrency, logger: silentLogger })
        .use(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: events }, groupCommit }))
        .handle(orderHandler(({ id, total }) => database.executor().query(insertOrder, [id, total]), onOrder))
      stop = connect(router, outbox, { way, prefetch: 2 * concurrency })
    },
    append,
    send: append,
    state: async () => ({
      orders: await world.count('SELECT count(*) FROM orders'),
      waiting: await world.count(`SELECT count(*) FROM ackord_outbox WHERE destination = '${commands}'`),
      events: await world.count(`SELECT count(*) FROM ackord_outbox WHERE destination = '${events}'`),
    }),
    async close() {
      await stop()
      await pool.end()
      await world.close()
    },
  }
}
