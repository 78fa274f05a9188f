import { InvalidOptionError, type Logger } from '@ackord/core'
import { checkName, guardLogger, rejectUnknownOptions } from '@ackord/core/internal'
import { type InboxAdmin, type InboxEntry, type InboxQuery, OperatorLog } from '@ackord/outbox'
import { defaultTag } from '../client/keys.ts'
import { type Script, script } from '../client/port.ts'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import { markerMaker } from './marker.ts'

export interface RedisInboxOptions {
  /** The hash tag of the markers, the same as `tag` of the inbox; if that is a function, the tag of the message in question. Default: `'ackord'`. */
  readonly tag?: string | undefined
  /** Receives operator actions. Default: the logger of `redis`. */
  readonly logger?: Logger | undefined
}

/**
 * The inbox markers of a Redis server or cluster, for operators. The key of a marker has the consumer and a hash of source and id, so it can only be
 * looked up: `find` and `forget` require the consumer and the source.
 */
export function redisInbox(redis: Redis, options: RedisInboxOptions = {}): InboxAdmin {
  const { tag = defaultTag, logger: given, ...unknown } = options
  rejectUnknownOptions('redisInbox()', unknown)
  checkName('tag', tag)
  const { port, logger } = internalsOf(redis)
  const log = new OperatorLog(given === undefined ? logger : guardLogger(given), { tag })

  return {
    async find(id, query = {}) {
      const key = keyOf(id, query)
      const reply = (await port.evaluate(findScript, [markerMaker(key.consumer)(tag, key)], [])) as readonly unknown[]
      return reply.length === 0 ? [] : [entryOf(key, reply.map(String))]
    },

    async forget(id, which) {
      const key = keyOf(id, which)
      const deleted = Number(await port.evaluate(forgetScript, [markerMaker(key.consumer)(tag, key)], []))
      if (deleted > 0) log.forgotten([key])
      return deleted
    },
  }
}

type Key = Required<Pick<InboxEntry, 'consumer' | 'source' | 'id'>>

function keyOf(id: string, { consumer, source }: InboxQuery): Key {
  checkName('id', id)
  if (consumer === undefined) throw required('consumer')
  checkName('consumer', consumer)
  if (source === undefined) throw required('source')
  return { consumer, source, id }
}

function required(option: string): InvalidOptionError {
  return new InvalidOptionError(
    option,
    'is required: Redis has a key for each consumer, with a hash of source and id, and cannot be searched for an id alone.',
  )
}

function entryOf(key: Key, [held = '', remaining = '', seconds = '', microseconds = '']: readonly string[]): InboxEntry {
  const left = Number(remaining)
  const now = Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
  const state = held.startsWith('done:') ? 'handled' : held.startsWith('partial:') ? 'partial' : 'inProgress'
  return { ...key, state, handledAt: undefined, expiresAt: left < 0 ? undefined : now + left }
}

/** KEYS: a marker. Answers its value, its remaining time and the server's time; nothing if there is no marker. */
const findScript: Script = script(`
local held = redis.call('GET', KEYS[1])
if not held then return {} end
local now = redis.call('TIME')
return { held, redis.call('PTTL', KEYS[1]), now[1], now[2] }`)

/** KEYS: a marker. Deletes it, unless it is the lease of a message in progress. */
const forgetScript: Script = script(`
local held = redis.call('GET', KEYS[1]) or ''
if held:sub(1, 5) == 'done:' or held:sub(1, 8) == 'partial:' then return redis.call('DEL', KEYS[1]) end
return 0`)
