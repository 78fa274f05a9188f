import { Message, publishAll, type RawMessage } from '@ackord/core'
import { checkDurability } from '../../src/check-durability.ts'
import { type Redis, redisIdempotency, redisRateLimiter } from '../../src/index.ts'
import { type StreamSourceOptions, streamPublisher, streamSource, trimStream } from '../../src/streams/index.ts'
import { useStreamOutbox } from '../outbox/stream/stream-outbox-flow.ts'

/** A typical use of the package, on a server of its own. It leaves nothing running. */
export interface Flow {
  readonly name: string
  run(redis: Redis): Promise<void>
}

function event(id: string): RawMessage {
  return new Message(new TextEncoder().encode('{}'), { id, type: 'test.event', source: '/test', partitionkey: id[0], attempt: 1 })
}

/** Publishes; acks, nacks and rejects; stops with entries in its prefetch; and takes over entries that another consumer left idle. */
async function consume(redis: Redis, options: StreamSourceOptions): Promise<void> {
  const { stream, shards } = options
  const publisher = streamPublisher(redis, { shards })
  const ids = ['a1', 'a2', 'b1', 'b2', 'c1', 'c2', 'd1', 'd2']
  await publishAll(publisher, stream, ids.map(event))
  const abandoned = streamSource(redis, options)
  const messages = abandoned.messages({ signal: new AbortController().signal })[Symbol.asyncIterator]()
  await messages.next()
  await messages.return?.()

  await using source = streamSource(redis, options)
  let settled = 0
  const stop = new AbortController()
  for await (const message of source.messages({ signal: stop.signal })) {
    if (message.deliveryCount === 1 && message.id === 'b1') await message.nack(new Error('not now'), { retryAfter: 20 })
    else if (message.id === 'c1') await message.reject(new Error('never'))
    else await message.ack()
    settled += message.id === 'b1' && message.deliveryCount === 1 ? 0 : 1
    if (settled === ids.length - 1) stop.abort()
    // The first message is held by the abandoned source.
    if (settled === 1) await abandoned[Symbol.asyncDispose]()
  }
  await trimStream(redis, { stream, shards, minId: false })
}

/** Claims, finds the claim running, releases, writes, and gets the answer. */
async function answerOnce(redis: Redis): Promise<void> {
  const store = redisIdempotency(redis)
  const key = { scope: 'POST /orders', key: 'k1' }
  const claim = async () => {
    const found = await store.claim(key, { fingerprint: 'f1', lease: 60_000 })
    return found.state === 'claimed' ? found.token : found.state
  }
  const token = await claim()
  await claim()
  await store.release(key, token)
  const work = async () => {
    await redis.commands().set(redis.key('ackord', 'order'), 'placed')
    return { status: 201, headers: [], body: new Uint8Array([255]) }
  }
  await store.write(key, await claim(), work, { retention: 60_000 })
  await claim()
}

/** Takes permits of several keys, finds none, and returns some. */
async function takePermits(redis: Redis): Promise<void> {
  const { take } = redisRateLimiter(redis)
  const request = { limit: 10, interval: 1000, burst: 2, wanted: 2, returned: 0 }
  const signal = new AbortController().signal
  await take(
    [
      { ...request, key: 'a' },
      { ...request, key: 'b' },
    ],
    { signal },
  )
  await take([{ ...request, key: 'a' }], { signal })
  await take([{ ...request, key: 'a', wanted: 0, returned: 2 }], { signal })
}

/** The flows of streams. The flows of inbox, outbox and the rest of the package are added to this list. */
export const flows: readonly Flow[] = [
  {
    name: 'a stream, in no order',
    run: (redis) => consume(redis, { stream: 'plain', group: 'g', block: 50, claimIdle: 100, claimInterval: 20, prefetch: 3 }),
  },
  {
    name: 'shards, in order per key',
    run: (redis) => consume(redis, { stream: 'ordered', group: 'g', shards: 2, order: 'perKey', block: 50, prefetch: 4 }),
  },
  { name: 'a stream outbox', run: useStreamOutbox },
  { name: 'an idempotency store', run: answerOnce },
  { name: 'a rate limiter', run: takePermits },
  {
    name: 'durability',
    run: async (redis) => {
      await checkDurability(redis)
    },
  },
]
