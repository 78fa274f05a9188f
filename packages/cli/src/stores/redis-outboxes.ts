import type { OutboxAdmin, OutboxStore, OutboxWriter } from '@ackord/outbox'
import { luaOutbox, type Redis, type RedisTransaction, streamOutbox } from '@ackord/redis'
import { usageError } from '../command-error.ts'
import type { OutboxChoices, StorePlace } from './store.ts'

interface RedisOutbox extends OutboxStore, OutboxAdmin, OutboxWriter<RedisTransaction> {
  /** Whether scripts may do all that they must; the Lua outbox only. */
  verify?(): Promise<void>
}

type OpenOutbox = (redis: Redis, choices: OutboxChoices) => RedisOutbox

/** Which of the two outboxes of Redis it is, by the options of the command. Refuses those that are for the other one. */
export function redisOutboxes(place: StorePlace): OpenOutbox {
  const { outbox = 'stream', stream, tag, shards } = place
  if (outbox === 'lua') {
    if (tag !== undefined && tag.length > 1)
      throw usageError('--tag is given more than once, and a Lua outbox has one.', 'What divides it is --shards.')
    return (redis, { order, retain, listen, logger }) => {
      checkChoices({ order, listen })
      return luaOutbox(redis, { name: stream, tag: tag?.[0], shards, retain, logger })
    }
  }
  if (shards !== undefined)
    throw usageError('--shards is for the Lua outbox.', 'Add --outbox lua, or divide a stream outbox by several --tag.')
  return (redis, { order, retain = false, listen, logger }) => {
    checkChoices({ order, listen })
    if (retain) throw usageError('The streams of Redis keep no published records: leave out --keep-published.')
    return streamOutbox(redis, { stream, tags: tag, logger })
  }
}

function checkChoices({ order = 'none', listen = false }: Pick<OutboxChoices, 'order' | 'listen'>): void {
  if (order !== 'none') throw usageError(`--order ${order} needs an SQL database: Redis has no order per key.`)
  if (listen) throw usageError('--listen is for PostgreSQL: relays hear of new records in Redis anyway.')
}
