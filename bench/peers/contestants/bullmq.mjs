// @ts-check
import { Queue, Worker } from 'bullmq'
import { chunksOf, redisConcurrency } from '../contestant.mjs'
import { openRedis } from '../redis.mjs'

/** @type {import('../contestant.mjs').Contestant} */
export const bullmq = {
  name: 'bullmq',
  store: 'Redis',
  settings: `ioredis; one Worker with concurrency: ${redisConcurrency} and removeOnComplete: { count: 0 }; HSET of the order, then add() of the event with a jobId made of the order's`,
  // A job cannot be added in a transaction with other writes, so there is nothing to append.
  measures: ['noop', 'drain', 'latency'],
  against: { noop: 'redis_ackord_source', drain: 'redis_ackord_source', latency: 'redis_ackord_source' },
  open,
}

/** @param {import('../contestant.mjs').Measure} measure @returns {Promise<import('../contestant.mjs').Session>} */
async function open(measure) {
  const { tag, client, key, close } = await openRedis()
  const options = { connection: client, prefix: `{${tag}}` }
  const orders = new Queue('orders', options)
  const events = new Queue('order-events', options)
  /** @type {Worker | undefined} */
  let worker
  return {
    async fill(all) {
      for (const chunk of chunksOf(all, 1000)) {
        await orders.addBulk(chunk.map((order) => ({ name: 'order.place', data: order, opts: { jobId: order.id } })))
      }
    },
    async start(onOrder) {
      worker = new Worker(
        'orders',
        async ({ data: { id, total } }) => {
          onOrder(id)
          if (measure === 'noop') return
          // A job may run again; the keys of the order and of the event make that harmless.
          await client.hset(key('orders'), id, total)
          await events.add('order.placed', { orderId: id, total }, { jobId: `placed-${id}` })
        },
        { ...options, concurrency: redisConcurrency, removeOnComplete: { count: 0 } },
      )
      worker.on('error', console.error)
      worker.on('failed', (_, error) => console.error(error))
    },
    async stop() {
      await worker?.close()
      worker = undefined
    },
    append: undefined,
    send: async (order) => void (await orders.add('order.place', order, { jobId: order.id })),
    orders: () => client.hlen(key('orders')),
    async state() {
      const { wait = 0, active = 0, paused = 0, delayed = 0, prioritized = 0 } = await orders.getJobCounts()
      return { waiting: wait + active + paused + delayed + prioritized, events: await events.count() }
    },
    async close() {
      await orders.close()
      await events.close()
      await close()
    },
  }
}
