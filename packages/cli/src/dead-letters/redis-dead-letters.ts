import { Message, type Publisher } from '@ackord/core'
import { readEntry } from '@ackord/redis/streams'
import type { RedisClient } from '../stores/redis-client.ts'
import type { DeadLetterQueue, StoredLetter } from './dead-letter-queue.ts'

const pageSize = 100

/** The letters are read with XRANGE and removed with XDEL, whatever groups the stream has. */
export async function openRedisLetters(client: RedisClient, publisher: Publisher, stream: string): Promise<DeadLetterQueue> {
  const count = await client.xlen(stream)
  const [newest] = await client.xrevrange(stream, '+', '-', 'COUNT', 1)

  return {
    count,
    publisher,
    undeletable: 0,
    async *letters(signal) {
      let after: string | undefined
      while (newest !== undefined && after !== newest[0] && !signal.aborted) {
        const start = after === undefined ? '-' : nextId(after)
        const page = await client.xrangeBuffer(stream, start, newest[0], 'COUNT', pageSize)
        if (page.length === 0) return
        for (const [id, fields] of page) {
          if (signal.aborted) return
          after = id.toString()
          yield letterOf(stream, after, fields)
        }
      }
    },
    async remove(letters) {
      if (letters.length > 0) await client.xdel(stream, ...letters.map(({ position }) => position))
    },
    async [Symbol.asyncDispose]() {},
  }
}

function letterOf(stream: string, position: string, fields: readonly Buffer[]): StoredLetter {
  try {
    const { data, attributes } = readEntry({ stream, id: position, fields })
    return { position, message: new Message(data, attributes) }
  } catch (error) {
    const at = fields.findIndex((field, index) => index % 2 === 0 && field.toString() === 'data')
    return { position, message: new Message(new Uint8Array(fields[at + 1] ?? [])), problem: String(error) }
  }
}

/** Redis 6.0 has no exclusive ranges. */
function nextId(id: string): string {
  const [milliseconds = '0', sequence = '0'] = id.split('-')
  return `${milliseconds}-${BigInt(sequence) + 1n}`
}
