import type { EventEmitter } from 'node:events'
import { Router, silentLogger } from '@ackord/core'
import { fromIoredis, fromNodeRedis, type Redis, streamOutbox, transactional } from '@ackord/redis'
import { Redis as Ioredis } from 'ioredis'
import { createClient } from 'redis'
import { spread } from '../figures.ts'
import { rateOf, runRounds } from '../rounds.ts'
import { eventOf, inParallel, iteratorOf, type Order, orderHandler, orderOf, source } from '../sql/orders.ts'

const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
const tag = `ackord-bench-${process.pid}`
const concurrency = 64
const rounds = { rounds: 5, count: 20_000 }
const lease = 30_000
const retention = 600_000

/** The hand-written equivalent: an inbox by SET NX, then one MULTI/EXEC, with the same keys, values and event ids. */
interface ByHand {
  begin(key: string): Promise<boolean>
  commit(key: string, order: Order, event: ReturnType<typeof eventOf>): Promise<void>
}

async function byHand({ begin, commit }: ByHand, count: number): Promise<number> {
  const iterator = iteratorOf(count)
  return await inParallel(concurrency, async () => {
    let done = 0
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
      const message = next.value
      const order = orderOf(message)
      const key = `{${tag}}:inbox:by-hand:${message.source}:${message.id}`
      if (await begin(key)) await commit(key, order, eventOf(message, order))
      await message.ack()
      done += 1
    }
    return done
  })
}

function withIoredis(client: Ioredis): ByHand {
  return {
    begin: async (key) => (await client.set(key, 'busy', 'PX', lease, 'NX')) === 'OK',
    async commit(key, order, event) {
      const replies = await client
        .multi()
        .set(key, 'done', 'PX', retention)
        .hset(`{${tag}}:order:${order.id}`, 'total', order.total)
        .xadd(`{${tag}}:hand`, '*', 'destination', 'order-events', 'attributes', event.attributes, 'data', event.data)
        .exec()
      for (const [error] of replies ?? []) if (error !== null) throw error
    },
  }
}

type NodeRedis = ReturnType<typeof createClient>

function withNodeRedis(client: NodeRedis): ByHand {
  return {
    begin: async (key) => (await client.set(key, 'busy', { condition: 'NX', expiration: { type: 'PX', value: lease } })) === 'OK',
    async commit(key, order, event) {
      await client
        .multi()
        .set(key, 'done', { expiration: { type: 'PX', value: retention } })
        .hSet(`{${tag}}:order:${order.id}`, 'total', order.total)
        .xAdd(`{${tag}}:hand`, '*', { destination: 'order-events', attributes: event.attributes, data: event.data })
        .exec()
    },
  }
}

async function throughAckord(redis: Redis, count: number, atOnce = concurrency): Promise<number> {
  const outbox = streamOutbox(redis, { tags: [tag], logger: silentLogger })
  const router = new Router({ concurrency: atOnce, logger: silentLogger })
    .use(transactional(redis, { inbox: { consumer: 'ackord', tag, lease, retention }, outbox: { outbox, destination: 'order-events' } }))
    .handle(orderHandler((order) => redis.commands().hset(redis.key(tag, 'order', order.id), 'total', order.total)))
  await router.run(source(count))
  return router.health().handled
}

/** Counted on the connection: messages are handled one after the other, so every answer arrives as a separate chunk. */
async function roundTrips(): Promise<number> {
  const client = new Ioredis(url)
  try {
    await client.ping()
    const redis = fromIoredis(client, { logger: silentLogger })
    // Loads the scripts into the server.
    await throughAckord(redis, 1, 1)
    let trips = 0
    const { stream } = client as unknown as { stream: EventEmitter }
    stream.on('data', () => {
      trips += 1
    })
    const count = 100
    await throughAckord(redis, count, 1)
    return trips / count
  } finally {
    client.disconnect()
  }
}

/** Exactly-once handling, in exclusive mode, against the hand-written equivalent. */
export async function handlingFigures(): Promise<Record<string, number>> {
  const ioredis = new Ioredis(url)
  const nodeRedis = await createClient({ url }).connect()
  try {
    const onIoredis = fromIoredis(ioredis, { logger: silentLogger })
    const onNodeRedis = fromNodeRedis(nodeRedis, { logger: silentLogger })
    const rates = await runRounds(
      {
        hand: (count) => rateOf(count, () => byHand(withIoredis(ioredis), count)),
        ackord: (count) => rateOf(count, () => throughAckord(onIoredis, count)),
        // The types differ because they include the modules of the client.
        nodeHand: (count) => rateOf(count, () => byHand(withNodeRedis(nodeRedis as unknown as NodeRedis), count)),
        nodeAckord: (count) => rateOf(count, () => throughAckord(onNodeRedis, count)),
      },
      rounds,
    )
    return {
      ...spread('hand_written_per_s', rates.of('hand')),
      ...spread('ackord_per_s', rates.of('ackord')),
      ...spread('ratio', rates.ratios('ackord', 'hand')),
      ...spread('node_redis_ratio', rates.ratios('nodeAckord', 'nodeHand')),
      round_trips: await roundTrips(),
    }
  } finally {
    await removeKeys(ioredis)
    ioredis.disconnect()
    nodeRedis.destroy()
  }
}

async function removeKeys(client: Ioredis): Promise<void> {
  for await (const keys of client.scanStream({ match: `{${tag}}*`, count: 1000 })) {
    const found = keys as string[]
    if (found.length > 0) await client.unlink(...found)
  }
}
