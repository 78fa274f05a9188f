import { Message, type Publisher } from '@ackord/core'
import { type DeadLetterQueue, type DeadLetters, type DeadLettersOptions, deadLetterPort, type StoredLetter } from '@ackord/core/broker'
import { checkName, rejectUnknownOptions } from '@ackord/core/internal'
import type { RedisPort, Reply } from '../client/port.ts'
import { asList } from '../client/reply.ts'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import { readEntry } from './entries/stream-entry.ts'
import { streamPublisher } from './stream-publisher.ts'

const pageSize = 100

/** The dead letters in a stream, for the dashboard. They are read with XRANGE and removed with XDEL, whatever groups the stream has. */
export function streamDeadLetters(redis: Redis, stream: string, options: DeadLettersOptions = {}): DeadLetters {
  const { publisher, logger, ...unknown } = options
  rejectUnknownOptions('streamDeadLetters()', unknown)
  checkName('stream', stream)
  const { port } = internalsOf(redis)
  // It has no connection of its own, so nothing has to be closed.
  const target = publisher ?? streamPublisher(redis)
  return deadLetterPort({ open: () => openStream(port, target, stream), logger })
}

async function openStream(port: RedisPort, publisher: Publisher, stream: string): Promise<DeadLetterQueue> {
  const send = (name: string, ...args: readonly string[]) => port.send({ name, args: [stream, ...args], keys: [0] }, { binary: true })
  const entriesIn = async (name: string, ...args: readonly string[]) => asList(await send(name, ...args)).map(entryOf)
  const count = Number(await send('XLEN'))
  const [newest] = await entriesIn('XREVRANGE', '+', '-', 'COUNT', '1')

  return {
    count,
    publisher,
    undeletable: 0,
    async *letters(signal) {
      let after: string | undefined
      while (newest !== undefined && after !== newest.id && !signal.aborted) {
        const start = after === undefined ? '-' : nextId(after)
        const page = await entriesIn('XRANGE', start, newest.id, 'COUNT', String(pageSize))
        if (page.length === 0) return
        for (const { id, fields } of page) {
          if (signal.aborted) return
          after = id
          yield letterOf(stream, id, fields)
        }
      }
    },
    async remove(letters) {
      if (letters.length > 0) await send('XDEL', ...letters.map(({ position }) => position))
    },
    async [Symbol.asyncDispose]() {},
  }
}

function entryOf(reply: Reply): { readonly id: string; readonly fields: readonly Buffer[] } {
  const [id, fields] = asList(reply)
  return { id: String(id), fields: asList(fields ?? []) as readonly Buffer[] }
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
