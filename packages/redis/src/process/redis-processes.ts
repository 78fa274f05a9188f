import { type Context, InvalidOptionError, StoreRefusesWritesError, TransactionRequiredError } from '@ackord/core'
import { checkDuration, checkName, rejectUnknownOptions } from '@ackord/core/internal'
import {
  checkProcessKey,
  checkProcessQuery,
  type ProcessAdmin,
  type ProcessChange,
  type ProcessKey,
  type ProcessRecord,
  type ProcessStore,
} from '@ackord/outbox'
import { defaultTag, redisKey } from '../client/keys.ts'
import type { Reply } from '../client/port.ts'
import { asList, callFailureOf } from '../client/reply.ts'
import type { CommandQueue } from '../transaction/command-queue.ts'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import { endScript } from './end-script.ts'
import { type Fields, fieldNames, recordOf, storedOf } from './instance-fields.ts'

export interface RedisProcessesOptions {
  /**
   * The hash tag of the keys. An instance commits with the marker of the inbox and the events of the outbox, so their keys need the same tag. One tag is one slot: on a
   * cluster, derive it from the id of the instance, as the inbox derives it from the message. Default: `'ackord'`.
   */
  readonly tag?: string | ((key: ProcessKey) => string) | undefined
}

/** The instances of processes in Redis. */
export interface RedisProcesses extends ProcessStore, ProcessAdmin {}

/** How long an instance that has expired may still be in the index: no process's clock is this far behind. */
const sweptAfter = 3_600_000

/**
 * Keeps the instances of processes in Redis, each in a hash: `router.handleAll(...orderProcess.handlers(redisProcesses(redis, { tag: 'orders' })))`. An event costs one read more
 * than an ordinary message; the new contents are part of the commit script.
 *
 * - Nothing is locked: of two messages that change an instance at once, the commit of the later one finds another version, and the message is handled again, as often as the `retries` of the
 *   transaction allow.
 * - An instance that has finished expires by itself.
 * - It is as durable as the server, which `checkDurability()` checks. A server that evicts keys must not evict instances.
 * - `list()` needs a fixed tag. The instants of an instance are those of the clocks of its handlers; `keep` is measured by the server.
 */
export function redisProcesses(redis: Redis, options: RedisProcessesOptions = {}): RedisProcesses {
  const { tag = defaultTag, ...unknown } = options
  rejectUnknownOptions('redisProcesses()', unknown)
  if (typeof tag !== 'function') checkName('tag', tag)
  const { port, runtime, find } = internalsOf(redis)

  function placeOf(key: ProcessKey): Place {
    checkProcessKey(key)
    return placeIn(typeof tag === 'function' ? tag(key) : tag, key)
  }

  function transactionOf(context: Context): CommandQueue {
    const transaction = find(context)
    if (transaction === undefined) throw new TransactionRequiredError('redisProcesses()')
    return transaction
  }

  async function read(instance: string): Promise<Fields> {
    return fieldsOf(await port.send({ name: 'HMGET', args: [instance, ...fieldNames], keys: [0] }))
  }

  return {
    async load(key, context) {
      const { instance } = placeOf(key)
      transactionOf(context).checkKey(instance)
      return storedOf(await read(instance))
    },

    async save(key, change, context) {
      const { instance, index, member } = placeOf(key)
      const queue = transactionOf(context)
      const now = runtime.now()
      const expiresAt = change.keep === undefined ? undefined : shifted(now, change.keep)
      queue.expectField(instance, 'version', change.version === 1 ? null : change.version - 1)
      const fields = ['version', String(change.version), ...contentsOf(change), 'changed_at', String(Math.round(now))]
      if (change.begins) fields.push('started_at', String(Math.round(now)))
      if (expiresAt !== undefined) fields.push('expires_at', String(expiresAt))
      queue.queue({ name: 'HSET', args: [instance, ...fields], keys: [0], kind: 'hash' })
      if (change.begins && expiresAt === undefined) {
        queue.queue({ name: 'ZADD', args: [index, '+inf', member], keys: [0], kind: 'zset' })
      }
      if (change.keep === undefined || expiresAt === undefined) return
      queue.queue({ name: 'PEXPIRE', args: [instance, String(Math.ceil(change.keep))], keys: [0], kind: 'any' })
      queue.queue({ name: 'ZADD', args: [index, String(expiresAt), member], keys: [0], kind: 'zset' })
      const swept = `(${shifted(now, -sweptAfter)}`
      queue.queue({ name: 'ZREMRANGEBYSCORE', args: [index, '-inf', swept], keys: [0], kind: 'zset' })
    },

    async list(query = {}) {
      const { process, phase, idleFor = -Infinity, limit, after = '0' } = checkProcessQuery(query)
      if (typeof tag === 'function') {
        throw new InvalidOptionError(
          'tag',
          "is a function, and list() reads the instances of one tag. Create redisProcesses(redis, { tag: '…' }) for it.",
        )
      }
      if (!/^\d+$/.test(after)) throw new InvalidOptionError('after', 'must be the `next` of an earlier page.')
      const { index } = placeIn(tag, { process: '', id: '' })
      const [cursor, found] = asList(await port.send({ name: 'ZSCAN', args: [index, after, 'COUNT', String(limit)], keys: [0] }))
      const keys = asList(found)
        .filter((_, position) => position % 2 === 0)
        .map((member) => keyOf(String(member)))
        .filter((key) => process === undefined || key.process === process)
      const now = runtime.now()
      const records = await Promise.all(keys.map(async (key) => recordOf(key, await read(placeIn(tag, key).instance))))
      const processes = records.filter((record): record is ProcessRecord => {
        return record !== undefined && (phase ?? record.phase) === record.phase && shifted(now, -record.changedAt) >= idleFor
      })
      const next = String(cursor)
      return { processes, next: next === '0' ? undefined : next }
    },

    async get(key) {
      return recordOf(key, await read(placeOf(key).instance))
    },

    async end(key, { keep }) {
      const { instance, index, member } = placeOf(key)
      checkDuration('keep', keep, { min: 1 })
      const now = runtime.now()
      const args = [String(Math.ceil(keep)), String(Math.round(now)), String(shifted(now, keep)), member]
      try {
        return Number(await port.evaluate(endScript, [instance, index], args)) === 1
      } catch (error) {
        const { kind, text } = callFailureOf(error)
        throw kind === 'refusesWrites' ? new StoreRefusesWritesError('Redis', text, { cause: error }) : error
      }
    },
  }
}

/** An instant of this process's clock, which the index and operators compare with those of others; nothing is decided by it. */
function shifted(now: number, by: number): number {
  // biome-ignore lint/plugin: the instant leaves the process, or came from another one.
  return Math.round(now + by)
}

interface Place {
  /** The hash of the instance. */
  readonly instance: string
  /** The sorted set of all instances of the tag: with the instant when they expire, or infinity. */
  readonly index: string
  readonly member: string
}

function placeIn(tag: string, { process, id }: ProcessKey): Place {
  return { instance: redisKey(tag, 'process', process, id), index: redisKey(tag, 'process-index'), member: JSON.stringify([process, id]) }
}

/** Of a member of the index, as `placeIn()` wrote it. */
function keyOf(member: string): ProcessKey {
  const [process, id] = JSON.parse(member) as readonly [string, string]
  return { process, id }
}

function contentsOf({ state, stateVersion, timeouts }: ProcessChange): readonly string[] {
  return ['state', state, 'state_version', String(stateVersion), 'timeouts', JSON.stringify(timeouts)]
}

function fieldsOf(reply: Reply): Fields {
  const values = asList(reply)
  const fields: Partial<Record<keyof Fields, string>> = {}
  for (const [index, name] of fieldNames.entries()) {
    const value = values[index]
    if (value !== null && value !== undefined) fields[name] = String(value)
  }
  return fields
}
