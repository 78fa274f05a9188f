import { silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { fromIoredis, type Redis, type StreamOutbox, streamOutbox } from '@ackord/redis'
import { Redis as Ioredis } from 'ioredis'
import { eventMessage } from '../event-message.ts'
import { spread } from '../figures.ts'
import { instantPublisher } from '../instant-publisher.ts'
import { runRounds } from '../rounds.ts'

const redisUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
const batch = 500
const group = 'relay'

/** A relay on a stream outbox whose publisher confirms immediately, against a loop of XREADGROUP, XACK and XDEL on the same client. */
export async function streamFigures(): Promise<Record<string, number>> {
  const client = new Ioredis(redisUrl)
  const tag = `bench-${process.pid}`
  const redis = fromIoredis(client, { logger: silentLogger })
  const outbox = streamOutbox(redis, { tags: [tag], group })
  // The full key, because the raw loop reads the same stream that the outbox has filled.
  const stream = `{${tag}}:outbox:to:order-events`
  try {
    const rates = await runRounds(
      {
        async raw(count) {
          await fill(redis, outbox, count)
          return await rateOfRaw(client, stream, count)
        },
        async relay(count) {
          await fill(redis, outbox, count)
          return await rateOfRelay(outbox, count, 1)
        },
        // With several batches the server and this process work in parallel, which the raw loop does not do.
        async four(count) {
          await fill(redis, outbox, count)
          return await rateOfRelay(outbox, count, 4)
        },
      },
      { rounds: 6, count: 50_000 },
    )
    return {
      ...spread('stream_raw_per_s', rates.of('raw')),
      ...spread('stream_relay_per_s', rates.of('relay')),
      ...spread('stream_ratio', rates.ratios('relay', 'raw')),
      ...spread('stream_ratio_concurrency_4', rates.ratios('four', 'raw')),
    }
  } finally {
    await client.del(stream, `{${tag}}:outbox:destinations`)
    client.disconnect()
  }
}

async function fill(redis: Redis, outbox: StreamOutbox, count: number): Promise<void> {
  const chunk = 1000
  for (let start = 0; start < count; start += chunk) {
    const messages = Array.from({ length: chunk }, (_, index) => eventMessage(`e-${start + index}`))
    const records = messages.map((message) => ({ destination: 'order-events', message }))
    await redis.write((transaction) => outbox.append(transaction, records))
  }
}

async function rateOfRaw(client: Ioredis, stream: string, count: number): Promise<number> {
  await client.xgroup('CREATE', stream, group, '0', 'MKSTREAM').catch(() => {})
  const start = process.hrtime.bigint()
  let done = 0
  while (done < count) {
    const reply = (await client.callBuffer('XREADGROUP', 'GROUP', group, 'raw', 'COUNT', batch, 'STREAMS', stream, '>')) as unknown
    const entries = entriesOf(reply)
    const ids = entries.map(([id]) => id)
    await client
      .multi()
      .xack(stream, group, ...ids)
      .xdel(stream, ...ids)
      .exec()
    done += entries.length
  }
  return count / secondsSince(start)
}

/** RESP3 replies with a map of streams, RESP2 with a list of pairs. */
function entriesOf(reply: unknown): readonly (readonly [Buffer, readonly Buffer[]])[] {
  const [first] = reply as readonly unknown[]
  const [, entries] = Array.isArray(first) ? first : (reply as readonly unknown[])
  return entries as readonly (readonly [Buffer, readonly Buffer[]])[]
}

async function rateOfRelay(outbox: ReturnType<typeof streamOutbox>, count: number, concurrency: number): Promise<number> {
  const publisher = instantPublisher(count)
  const relay = new Relay(outbox, { publisher, batchSize: batch, concurrency, logger: silentLogger })
  const start = process.hrtime.bigint()
  relay.start()
  await publisher.finished
  await relay.stop()
  const seconds = secondsSince(start)
  const { published } = publisher
  const { destinations } = await outbox.stats()
  if (published !== count || destinations.length > 0) throw new Error(`Expected ${count} published records, got ${published}.`)
  return count / seconds
}

function secondsSince(start: bigint): number {
  return Number(process.hrtime.bigint() - start) / 1e9
}
