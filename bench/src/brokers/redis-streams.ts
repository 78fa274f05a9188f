import { silentLogger } from '@ackord/core'
import { fromIoredis } from '@ackord/redis'
import { streamPublisher, streamSource } from '@ackord/redis/streams'
import { Redis } from 'ioredis'
import { ackordContestant, type Contest, type Contestant, prefetch } from './contest.ts'

const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
const group = 'bench'

/** XADD in a pipeline, XREADGROUP and XACK written by hand, against the same client through the library. */
export async function redisStreamsContest(): Promise<Contest> {
  const client = new Redis(url)
  const redis = fromIoredis(client, { logger: silentLogger })
  const [bareStream, stream] = [`bench-bare-${process.pid}`, `bench-${process.pid}`]
  await client.xgroup('CREATE', bareStream, group, '0', 'MKSTREAM')
  const publisher = streamPublisher(redis)
  const source = streamSource(redis, { stream, group, prefetch })
  return {
    bare: byHand(client, bareStream),
    ackord: ackordContestant(publisher, source, stream),
    async [Symbol.asyncDispose]() {
      await source[Symbol.asyncDispose]()
      await publisher[Symbol.asyncDispose]()
      const left = await client.keys(`*bench*${process.pid}*`)
      if (left.length > 0) await client.del(left)
      client.disconnect()
    },
  }
}

function byHand(client: Redis, stream: string): Contestant {
  return {
    async publish(messages) {
      const pipeline = client.pipeline()
      for (const { data, attributes } of messages) {
        const fields: (string | Buffer)[] = []
        for (const name in attributes) fields.push(name, String(attributes[name]))
        fields.push('data', Buffer.from(data.buffer, data.byteOffset, data.byteLength))
        pipeline.xadd(stream, '*', ...fields)
      }
      const answers = (await pipeline.exec()) ?? []
      for (const [error] of answers) if (error !== null) throw error
    },
    async consume(count) {
      let done = 0
      while (done < count) {
        const reply = await client.callBuffer('XREADGROUP', 'GROUP', group, 'bare', 'COUNT', prefetch, 'STREAMS', stream, '>')
        const ids = entryIds(reply)
        // One XACK per message, as a service acks.
        await Promise.all(ids.map((id) => client.xack(stream, group, id)))
        done += ids.length
      }
      return done
    },
  }
}

/** RESP3 replies with a map of streams, RESP2 with a list of pairs. */
function entryIds(reply: unknown): readonly Buffer[] {
  const [first] = reply as readonly unknown[]
  const [, entries] = (Array.isArray(first) ? first : reply) as readonly [unknown, readonly (readonly [Buffer, unknown])[]]
  return entries.map(([id]) => id)
}
