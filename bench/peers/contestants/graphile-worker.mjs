// @ts-check
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import pg from 'pg'
import { chunksOf, connections } from '../contestant.mjs'
import { insertOrder, insertRequest, openPostgres, postgresUrl } from '../postgres.mjs'

/** The settings of its page about performance, with our number of connections. */
const settings = { concurrentJobs: connections, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }

/** @type {import('../contestant.mjs').Contestant} */
export const graphileWorker = {
  name: 'graphile_worker',
  store: 'PostgreSQL',
  settings: `concurrentJobs: ${connections}, localQueue: { size: 500 }, completeJobBatchDelay: 0, as its page about performance has them; a pool of ${connections + 1}, one of which listens; BEGIN, order (ON CONFLICT DO NOTHING), add_job() if the order is new, COMMIT`,
  measures: ['noop', 'drain', 'append', 'latency', 'snapshot', 'backlog'],
  against: {
    noop: 'ackord_source',
    drain: 'ackord_source',
    append: 'ackord',
    latency: 'ackord_source',
    snapshot: 'ackord_source',
    backlog: 'ackord_source',
  },
  open,
}

/** @param {import('../contestant.mjs').Measure} measure @returns {Promise<import('../contestant.mjs').Session>} */
async function open(measure) {
  const world = await openPostgres()
  // One connection listens.
  const pgPool = new pg.Pool({ connectionString: postgresUrl, max: connections + 1, options: world.searchPath })
  pgPool.on('error', console.error)
  pgPool.on('connect', (client) => client.on('error', console.error))
  const logger = new Logger(() => (level, message) => {
    if (level === 'error') console.error(message)
  })
  const preset = { worker: { ...settings, schema: world.queueSchema, pgPool, logger } }
  const utilities = await makeWorkerUtils({ preset, pgPool })
  await utilities.migrate()
  const addJob = `SELECT ${world.queueSchema}.add_job($1, $2::json)`
  /** @type {import('graphile-worker').Runner | undefined} */
  let runner

  const append = (/** @type {import('../contestant.mjs').Order} */ order) =>
    world.write(async (client) => {
      await client.query(insertRequest, [order.id, order.total])
      await client.query(addJob, ['orders', JSON.stringify(order)])
    })

  return {
    async fill(orders) {
      for (const chunk of chunksOf(orders, 1000)) {
        await utilities.addJobs(chunk.map((order) => ({ identifier: 'orders', payload: order })))
      }
      await world.vacuum()
    },
    async start(onOrder) {
      /** @type {import('graphile-worker').Task} */
      const orders = async (payload, { withPgClient }) => {
        const { id, total } = /** @type {import('../contestant.mjs').Order} */ (payload)
        onOrder(id)
        if (measure === 'noop') return
        await withPgClient(async (client) => {
          await client.query('BEGIN')
          try {
            // A job may run again if the worker dies before its completion is stored; the key of the order makes that harmless.
            const { rowCount } = await client.query(`${insertOrder} ON CONFLICT DO NOTHING`, [id, total])
            if (rowCount === 1) await client.query(addJob, ['order_events', JSON.stringify({ orderId: id, total })])
            await client.query('COMMIT')
          } catch (error) {
            await client.query('ROLLBACK')
            throw error
          }
        })
      }
      runner = await run({ preset, pgPool, taskList: { orders }, noHandleSignals: true })
    },
    async stop() {
      await runner?.stop()
      runner = undefined
    },
    append,
    send: append,
    orders: () => world.count('SELECT count(*) FROM orders'),
    state: async () => ({
      waiting: await world.count(`SELECT count(*) FROM ${world.queueSchema}.jobs WHERE task_identifier = 'orders'`),
      events: await world.count(`SELECT count(*) FROM ${world.queueSchema}.jobs WHERE task_identifier = 'order_events'`),
    }),
    async close() {
      await utilities.release()
      await pgPool.end()
      await world.close()
    },
  }
}
