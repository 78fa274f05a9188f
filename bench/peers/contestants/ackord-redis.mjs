// @ts-check
import { silentLogger } from '@ackord/core'
import { fromIoredis, streamOutbox, transactional } from '@ackord/redis'
import { commands, events, recordOf, startHandling } from '../ackord.mjs'
import { chunksOf, redisConcurrency } from '../contestant.mjs'
import { openRedis } from '../redis.mjs'

/** @type {import('../contestant.mjs').Contestant} */
export const ackordRedisRelay = {
  name: 'redis_ackord',
  store: 'Redis',
  settings: `ioredis; Relay on streamOutbox() into the in-memory broker, transactional() with inbox and outbox, concurrency: ${redisConcurrency}`,
  measures: ['noop', 'drain', 'append', 'latency'],
  open: (measure) => open('relay', measure),
}

/** @type {import('../contestant.mjs').Contestant} */
export const ackordRedisSource = {
  name: 'redis_ackord_source',
  store: 'Redis',
  settings: 'the same with outboxSource() instead of relay and broker',
  measures: ['noop', 'drain', 'latency'],
  open: (measure) => open('source', measure),
}

/** @param {import('../ackord.mjs').Way} way @param {import('../contestant.mjs').Measure} measure @returns {Promise<import('../contestant.mjs').Session>} */
async function open(way, measure) {
  const { tag, client, key, close } = await openRedis()
  const writer = client.duplicate()
  const redis = fromIoredis(client, { logger: silentLogger })
  const writing = fromIoredis(writer, { logger: silentLogger })
  const outbox = streamOutbox(redis, { tags: [tag], logger: silentLogger })
  const written = streamOutbox(writing, { tags: [tag], logger: silentLogger })
  let stop = async () => {}

  const append = (/** @type {import('../contestant.mjs').Order} */ order) =>
    writing.write(async (transaction) => {
      await writing.commands().hset(key('requests'), order.id, order.total)
      await written.append(transaction, [recordOf(order)])
    })

  return {
    async fill(orders) {
      for (const chunk of chunksOf(orders, 500)) await redis.write((transaction) => outbox.append(transaction, chunk.map(recordOf)))
    },
    async start(onOrder) {
      const middleware = transactional(redis, { inbox: { consumer: 'orders', tag }, outbox: { outbox, destination: events } })
      const save = (/** @type {import('../contestant.mjs').Order} */ { id, total }) => redis.commands().hset(key('orders'), id, total)
      stop = startHandling(outbox, { way, measure, concurrency: redisConcurrency, middleware, save, onOrder })
    },
    stop: () => stop(),
    append,
    send: append,
    orders: () => client.hlen(key('orders')),
    state: async () => ({
      waiting: await client.xlen(key(`outbox:to:${commands}`)),
      events: await client.xlen(key(`outbox:to:${events}`)),
    }),
    async close() {
      writer.disconnect()
      await close()
    },
  }
}
