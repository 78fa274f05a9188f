// @ts-check
import { chunksOf, redisConcurrency } from '../contestant.mjs'
import { openRedis } from '../redis.mjs'

/** @type {import('../contestant.mjs').Contestant} */
export const handRedis = {
  name: 'redis_hand',
  store: 'Redis',
  settings: `ioredis; XREADGROUP of up to ${redisConcurrency} entries, then for each a MULTI with the order, XADD of the event, XACK and XDEL, all concurrently`,
  measures: ['noop', 'drain', 'append', 'latency'],
  against: { noop: 'redis_ackord_source', drain: 'redis_ackord_source', append: 'redis_ackord', latency: 'redis_ackord_source' },
  open,
}

/** @param {import('../contestant.mjs').Measure} measure @returns {Promise<import('../contestant.mjs').Session>} */
async function open(measure) {
  const { client, key, close } = await openRedis()
  const reader = client.duplicate()
  const writer = client.duplicate()
  const [messages, events] = [key('messages'), key('events')]
  await client.xgroup('CREATE', messages, 'workers', '0', 'MKSTREAM')
  let stopped = false
  /** @type {Promise<void> | undefined} */
  let running

  /** @param {(id: string) => void} onOrder */
  async function work(onOrder) {
    while (!stopped) {
      const reply = await reader.call(
        ...['XREADGROUP', 'GROUP', 'workers', 'one', 'COUNT', redisConcurrency, 'BLOCK', 1000, 'STREAMS', messages, '>'],
      )
      await Promise.all(
        entriesOf(reply).map(async ([entry, [, data = '']]) => {
          const { id, total } = JSON.parse(data)
          onOrder(id)
          const transaction = client.multi()
          if (measure !== 'noop') {
            transaction.hset(key('orders'), id, total).xadd(events, '*', 'data', JSON.stringify({ orderId: id, total }))
          }
          const replies = await transaction.xack(messages, 'workers', entry).xdel(messages, entry).exec()
          for (const [error] of replies ?? []) if (error !== null) throw error
        }),
      )
    }
  }

  const append = async (/** @type {import('../contestant.mjs').Order} */ order) => {
    await writer.multi().hset(key('requests'), order.id, order.total).xadd(messages, '*', 'data', JSON.stringify(order)).exec()
  }

  return {
    async fill(orders) {
      for (const chunk of chunksOf(orders, 1000)) {
        const pipeline = client.pipeline()
        for (const order of chunk) pipeline.xadd(messages, '*', 'data', JSON.stringify(order))
        await pipeline.exec()
      }
    },
    async start(onOrder) {
      stopped = false
      running = work(onOrder)
    },
    async stop() {
      stopped = true
      await running
    },
    append,
    send: append,
    orders: () => client.hlen(key('orders')),
    state: async () => ({
      waiting: await client.xlen(messages),
      events: await client.xlen(events),
    }),
    async close() {
      reader.disconnect()
      writer.disconnect()
      await close()
    },
  }
}

/**
 * RESP3 replies with a map of streams, RESP2 with a list of pairs.
 *
 * @param {any} reply
 * @returns {[id: string, fields: string[]][]}
 */
function entriesOf(reply) {
  if (reply === null) return []
  const [first] = reply
  return Array.isArray(first) ? first[1] : reply[1]
}
