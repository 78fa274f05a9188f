// @ts-check
import { PgBoss } from 'pg-boss'
import { chunksOf, connections } from '../contestant.mjs'
import { insertOrders, insertRequest, openPostgres, postgresUrl } from '../postgres.mjs'

/** Large batches have the highest throughput. A notification wakes every worker, so a single one has the lowest latency. */
const forBacklog = { localConcurrency: 4, batchSize: 500 }
const forLatency = { localConcurrency: 1, batchSize: 50 }

/** @type {import('../contestant.mjs').Contestant} */
export const pgBoss = {
  name: 'pg_boss',
  store: 'PostgreSQL',
  settings: `work() with transactional: true, burstWhenBatchFull: true, localConcurrency: ${forBacklog.localConcurrency} and batchSize: ${forBacklog.batchSize}, for latency ${forLatency.localConcurrency} and ${forLatency.batchSize}; a pool of ${connections}; useListenNotify: true and notify: true; the handler writes the orders of a batch with one statement, and their events with one insert()`,
  measures: ['noop', 'drain', 'append', 'latency', 'snapshot', 'backlog'],
  against: {
    noop: 'ackord_source',
    drain: 'ackord_group',
    append: 'ackord',
    latency: 'ackord_source',
    snapshot: 'ackord_source',
    backlog: 'ackord_group',
  },
  open,
}

/** @param {import('../contestant.mjs').Measure} measure @returns {Promise<import('../contestant.mjs').Session>} */
async function open(measure) {
  const world = await openPostgres()
  const boss = new PgBoss({
    connectionString: postgresUrl,
    options: world.searchPath,
    schema: world.queueSchema,
    max: connections,
    useListenNotify: true,
    schedule: false,
  })
  boss.on('error', console.error)
  boss.on('warning', console.error)
  await boss.start()
  await boss.createQueue('orders', { notify: true })
  await boss.createQueue('order-events')

  const append = (/** @type {import('../contestant.mjs').Order} */ order) =>
    world.write(async (client) => {
      await client.query(insertRequest, [order.id, order.total])
      const db = { executeSql: (/** @type {string} */ text, /** @type {unknown[] | undefined} */ values) => client.query(text, values) }
      await boss.send('orders', order, { db })
    })

  return {
    async fill(orders) {
      for (const chunk of chunksOf(orders, 1000)) {
        await boss.insert(
          'orders',
          chunk.map((order) => ({ data: order })),
        )
      }
      await world.vacuum()
    },
    async start(onOrder) {
      const sizes = measure === 'latency' || measure === 'snapshot' ? forLatency : forBacklog
      if (measure === 'noop') {
        await boss.work('orders', { ...sizes, burstWhenBatchFull: true }, async (jobs) => {
          for (const { data } of jobs) onOrder(/** @type {import('../contestant.mjs').Order} */ (data).id)
        })
        return
      }
      const options = /** @type {const} */ ({ ...sizes, transactional: true, burstWhenBatchFull: true })
      await boss.work('orders', options, async (jobs, tx) => {
        const orders = jobs.map(({ data }) => /** @type {import('../contestant.mjs').Order} */ (data))
        for (const { id } of orders) onOrder(id)
        await tx.executeSql(insertOrders, [orders.map(({ id }) => id), orders.map(({ total }) => total)])
        await boss.insert(
          'order-events',
          orders.map(({ id, total }) => ({ data: { orderId: id, total } })),
          { db: tx },
        )
      })
    },
    stop: () => boss.offWork('orders'),
    append,
    send: append,
    orders: () => world.count('SELECT count(*) FROM orders'),
    state: async () => ({
      waiting: await world.count(`SELECT count(*) FROM ${world.queueSchema}.job WHERE name = 'orders' AND state <> 'completed'`),
      events: await world.count(`SELECT count(*) FROM ${world.queueSchema}.job WHERE name = 'order-events'`),
    }),
    async close() {
      await boss.stop({ graceful: true })
      await world.close()
    },
  }
}
