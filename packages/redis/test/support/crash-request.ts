import { randomUUID } from 'node:crypto'
import { writeSync } from 'node:fs'
import { Message, silentLogger, sleep, systemRuntime } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import { Redis as Ioredis } from 'ioredis'
import { fromIoredis, redisIdempotency, streamOutbox } from '../../src/index.ts'
import { ordersKey } from './crash-rules.ts'

const { CRASH_REDIS = '', CRASH_TAG = '', CRASH_POINT } = process.env
const key = { scope: 'POST /orders', key: 'k1' }

installProbe((point) => {
  if (point === CRASH_POINT) process.kill(process.pid, 'SIGKILL')
})

const client = new Ioredis(CRASH_REDIS)
const redis = fromIoredis(client, { logger: silentLogger })
const store = redisIdempotency(redis, { tag: CRASH_TAG })
const outbox = streamOutbox(redis, { tags: [CRASH_TAG] })

/** Serves one request: places an order with a new id, or gets the id of the order that was placed before. */
async function serve(): Promise<string> {
  const found = await store.claim(key, { fingerprint: 'f1', lease: 200 })
  if (found.state === 'answered') return Buffer.from(found.answer.body).toString()
  if (found.state === 'mismatch') throw new Error('Another request has the key.')
  if (found.state === 'running') {
    // The process that has the claim was killed.
    await sleep(systemRuntime, found.remaining)
    return await serve()
  }
  const id = randomUUID()
  const placed = new Message(new Uint8Array(), { id, type: 'order.placed', source: '/orders' })
  await store.write(
    key,
    found.token,
    async (transaction) => {
      // A list, so that an order that is placed twice appears twice.
      await redis.commands().rpush(ordersKey(CRASH_TAG), id)
      await outbox.append(transaction, { destination: 'order-events', message: placed })
      return { status: 201, headers: [], body: Buffer.from(id) }
    },
    { retention: 60_000 },
  )
  return id
}

writeSync(1, await serve())
client.disconnect()
