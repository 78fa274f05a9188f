import { AckordError, InvalidOptionError, TransactionRequiredError, toError } from '@ackord/core'
import {
  checkChoice,
  checkCount,
  checkDuration,
  checkFunction,
  checkName,
  describeValue,
  messageOf,
  rejectUnknownOptions,
} from '@ackord/core/internal'
import type { NewOutboxRecord } from '@ackord/outbox'
import { toBuffer } from '../../../client/argument.ts'
import type { RedisArgument, Reply } from '../../../client/port.ts'
import type { QueuedCommand } from '../../../client/queued-command.ts'
import { asList } from '../../../client/reply.ts'
import type { RedisTransaction } from '../../../transaction/transaction.ts'
import { contextOf, runWith, withContext } from '../context.ts'
import { enqueueArguments } from '../enqueue.ts'
import type { LuaShard } from '../layout.ts'
import type { LuaOutbox, PreparedRecords } from '../lua-outbox.ts'
import { storedRecord } from '../record-body.ts'
import type { OutboxScript } from '../scripts/prelude.ts'
import {
  byAge,
  checkTime,
  type DueExpiries,
  type DueExpiry,
  type ExpiryKeyName,
  expiryId,
  expiryKey,
  isTime,
  keysWithExpiry,
  namespaceBytes,
  toExpiries,
} from './due-expiry.ts'
import { type ParkedExpiries, parkedExpiries } from './parked-expiries.ts'
import { decideScript, dueScript, extendFragment, recordScript, revokeScript } from './scripts.ts'

export interface LuaExpiryOptions {
  /** The name of the keys, behind that of the outbox. Two on one outbox need two names, and two namespaces. Default: `expiry`. */
  readonly name?: string | undefined
  /** Milliseconds for which a revocation is remembered beyond the due time. A late recording must come before that. Default: 7 days. */
  readonly grace?: number | undefined
  /** Milliseconds for which a decision is remembered beyond the due time, so that it is not made again, whatever the outbox retains. Default: 7 days. */
  readonly remember?: number | undefined
}

/** The content of an expiry event. */
export interface Expiry {
  readonly subject: string
  readonly dueAt: number
  readonly context: Uint8Array
  /** The same at every decision of this expiry. */
  readonly eventId: string
}

/** Creates the event. Its message always gets the id of the expiry. Must be pure: the same result each time. If it throws, the expiry is parked. */
export type ExpiryEvent = (expiry: Expiry) => NewOutboxRecord

/**
 * `enqueued`: the event was stored. `duplicate`: the expiry was decided before. `revoked`: there is no event. `not_due`: it is not due yet, was issued again, or
 * is not recorded; nothing was changed. `parked`: the event cannot be created; the expiry waits for an operator.
 */
export type ExpiryDecision = 'enqueued' | 'duplicate' | 'revoked' | 'not_due' | 'parked'

/** `moved`: it had another due time. `revoked`: the subject is revoked, and nothing was recorded. `decided`: this expiry was decided before, and nothing was recorded. */
export type ExpiryRecording = 'recorded' | 'moved' | 'revoked' | 'decided'

/** `duplicate`: it was revoked before. `expired`: it had expired before; nothing was stored. */
export type Revocation = 'revoked' | 'duplicate' | 'expired'

export interface RecordExpiryOptions {
  /** Whether a revoked subject becomes valid again. Default: false, so that a late recording does not undo a revocation. */
  readonly reissue?: boolean | undefined
}

export interface RevokeOptions {
  /** The event of a subject that has expired before: `skip`: it is not stored, so that there is one event. `store`: it is stored after the expiry's. Default: `skip`. */
  readonly afterExpiry?: 'skip' | 'store' | undefined
}

export interface CutoffOptions {
  /** Milliseconds since the epoch: later expiries are not due yet. Never later than the server's clock. Default: the server's clock. */
  readonly cutoff?: number | undefined
}

/**
 * Events for subjects that expire. All calls can be repeated after a failure, and made by any number of processes concurrently: each is one script, and the first one
 * decides. A subject is in the shard of its name as an ordering key: `outbox.tagOf(subject)`. The number of shards must not change while expiries are
 * recorded: a revocation would look for them in another shard.
 *
 *     recorded ─ revoke() ─▶ revoked
 *     recorded ─ decideExpiry(), from the due time on ─▶ expired, its event stored     or ─▶ parked ─ rearmParked() ─▶ recorded
 */
export interface LuaExpiry extends ParkedExpiries {
  /** `dueAt`: milliseconds since the epoch. Replaces an earlier recording. */
  recordExpiry(subject: string, dueAt: number, context: Uint8Array, options?: RecordExpiryOptions): Promise<ExpiryRecording>
  /** The same as a part of a transaction, so that issuing a subject and recording its expiry are one step. A revoked subject stays revoked, which the decision reports. */
  recordExpiryIn(transaction: RedisTransaction, subject: string, dueAt: number, context: Uint8Array, options?: RecordExpiryOptions): void
  /** Reads only. */
  dueExpiries(limit: number, options?: CutoffOptions): Promise<DueExpiries>
  /** Stores the event, unless it is not due, was revoked or was decided before: all in one step. */
  decideExpiry(due: DueExpiry, event: ExpiryEvent, options?: CutoffOptions): Promise<ExpiryDecision>
  /** Stores the event and prevents that of the expiry, in one step. Use the same event id when you try again. */
  revoke(subject: string, event: NewOutboxRecord, options?: RevokeOptions): Promise<Revocation>
  /** The same for a MULTI or a script of your own, behind `outboxLua` and `expiryLua`: the arguments of `ackord.revokeExpiry`. */
  prepareRevoke(subject: string, event: NewOutboxRecord, options?: RevokeOptions): PreparedRecords
  /** The id of the event. */
  eventId(subject: string, dueAt: number): string
}

const day = 24 * 60 * 60 * 1000
const maxReasonLength = 1000

/** `namespace`: a UUID of your own. Event ids are made from it, the subject and the due time, so it must never change. */
export function luaExpiry(outbox: LuaOutbox, namespace: string, options: LuaExpiryOptions = {}): LuaExpiry {
  const outboxContext = contextOf(outbox)
  const { shards, logger, maxSize, ordered } = outboxContext
  const { name = 'expiry', grace = 7 * day, remember = 7 * day, ...unknown } = options
  rejectUnknownOptions('luaExpiry()', unknown)
  const bytes = namespaceBytes(namespace)
  checkName('name', name)
  checkDuration('grace', grace, { min: 1 })
  checkDuration('remember', remember, { min: 1 })
  const graceText = String(Math.ceil(grace))
  const rememberText = String(Math.ceil(remember))

  function run(shard: LuaShard, script: OutboxScript, args: readonly RedisArgument[], binary = false): Promise<Reply> {
    return runWith(outboxContext, keysWithExpiry(shard, name), script, args, { binary })
  }

  function shardOf(subject: string): LuaShard {
    checkName('subject', subject)
    return shards.byKey(subject)
  }

  function eventOf(event: NewOutboxRecord, shard: LuaShard, strict: boolean): RedisArgument[] {
    if (ordered) shards.checkKey(event.message, shard)
    return enqueueArguments([storedRecord(event, { maxSize, ordered })], { strict, ordered })
  }

  /** Throws if the event cannot be stored. */
  function revokeArguments(subject: string, event: NewOutboxRecord, { afterExpiry = 'skip', ...more }: RevokeOptions): RedisArgument[] {
    rejectUnknownOptions('revoke()', more)
    checkChoice('afterExpiry', afterExpiry, ['skip', 'store'])
    const stored = eventOf(event, shardOf(subject), true)
    return [subject, graceText, afterExpiry === 'skip' ? '1' : '0', ...stored]
  }

  /** The arguments of the event, or the reason why there is none. */
  function eventArguments({ subject, dueAt, context }: DueExpiry, shard: LuaShard, event: ExpiryEvent): readonly RedisArgument[] | string {
    if (!isTime(dueAt)) return 'Its due time is none.'
    if (context === undefined) return 'Its context is missing.'
    try {
      const eventId = expiryId(bytes, subject, dueAt)
      const { message, ...rest } = event({ subject, dueAt, context, eventId })
      const record = { ...rest, message: message.withAttributes({ id: eventId }) }
      // Another content of the same expiry, by another version of the service, is no conflict: the first one is stored.
      return eventOf(record, shard, false)
    } catch (error) {
      return `Its event cannot be created: ${messageOf(toError(error))}`.slice(0, maxReasonLength)
    }
  }

  const expiry: LuaExpiry = {
    ...parkedExpiries({ shards: shards.all, logger, shardOf, run }),

    async recordExpiry(subject, dueAt, context, { reissue = false, ...more } = {}) {
      rejectUnknownOptions('recordExpiry()', more)
      checkTime('dueAt', dueAt)
      const args = [subject, String(dueAt), toBuffer(checkContext(context, maxSize)), graceText, reissue ? '1' : '0']
      return String(await run(shardOf(subject), recordScript, args)) as ExpiryRecording
    },

    recordExpiryIn(transaction, subject, dueAt, context, { reissue = false, ...more } = {}) {
      if (typeof transaction?.queue !== 'function') throw new TransactionRequiredError('recordExpiryIn()')
      rejectUnknownOptions('recordExpiryIn()', more)
      checkTime('dueAt', dueAt)
      const value = toBuffer(checkContext(context, maxSize))
      const shard = shardOf(subject)
      const queue = (command: string, kind: QueuedCommand['kind'], key: ExpiryKeyName, ...args: RedisArgument[]) =>
        transaction.queue({ name: command, args: [expiryKey(shard, name, key), ...args], keys: [0], kind })
      queue('HSET', 'hash', 'contexts', subject, value)
      queue('ZADD', 'zset', 'due', String(dueAt), subject)
      // An existing mark must outlive this due time too.
      if (reissue) queue('ZREM', 'zset', 'revoked', subject)
      else queue('extend()', extendFragment, 'revoked', String(dueAt + Math.ceil(grace)), subject)
      queue('ZREM', 'zset', 'decided', `s${subject}`)
      queue('HDEL', 'hash', 'parked', subject)
    },

    async dueExpiries(limit, { cutoff, ...more } = {}) {
      rejectUnknownOptions('dueExpiries()', more)
      checkCount('limit', limit)
      const args = [String(limit), cutoffText(cutoff)]
      const replies = await Promise.all(shards.all.map((shard) => run(shard, dueScript, args, true)))
      const waits = replies.map((reply) => Number(String(asList(reply)[1]))).filter((wait) => wait >= 0)
      const expiries = replies.flatMap((reply, index) => toExpiries(shards.all[index] as LuaShard, asList(reply).slice(2)))
      if (shards.all.length > 1) expiries.sort(byAge)
      const now = Math.max(...replies.map((reply) => Number(String(asList(reply)[0]))))
      return { expiries: expiries.slice(0, limit), now, nextIn: waits.length === 0 ? undefined : Math.min(...waits) }
    },

    async decideExpiry(due, event, { cutoff, ...more } = {}) {
      rejectUnknownOptions('decideExpiry()', more)
      checkFunction('event', event)
      const { subject, dueAt, tag } = due
      const shard = tag === undefined ? shardOf(subject) : shards.byTag(tag)
      if (shard === undefined) throw new InvalidOptionError('tag', `must be one that dueExpiries() gave; it is '${tag}'.`)
      const made = eventArguments(due, shard, event)
      const [reason, stored] = typeof made === 'string' ? [made, []] : ['', made]
      const args = [subject, isTime(dueAt) ? String(dueAt) : '', cutoffText(cutoff), rememberText, reason, ...stored]
      const decision = String(await run(shard, decideScript, args)) as ExpiryDecision
      outboxContext.metrics?.count('ackord.outbox.expiry', 1, { decision })
      if (decision === 'parked') {
        const why = reason === '' ? 'Its context is missing.' : reason
        logger.error({ tag: shard.tag, subject, dueAt }, `An expiry is parked: it has no event until rearmParked(). ${why}`)
      }
      return decision
    },

    async revoke(subject, event, settings = {}) {
      const args = revokeArguments(subject, event, settings)
      try {
        const revocation = String(await run(shardOf(subject), revokeScript, args)) as Revocation
        outboxContext.metrics?.count('ackord.outbox.revoked', 1, { result: revocation })
        return revocation
      } catch (error) {
        if (error instanceof Error && /\bCONFLICT\b/.test(error.message)) throw conflict(subject, event, error)
        throw error
      }
    },

    prepareRevoke(subject, event, settings = {}) {
      const keys = keysWithExpiry(shardOf(subject), name)
      return { lua: revokeScript.lua, keys, args: revokeArguments(subject, event, settings) }
    },

    eventId(subject, dueAt) {
      checkName('subject', subject)
      checkTime('dueAt', dueAt)
      return expiryId(bytes, subject, dueAt)
    },
  }

  return withContext(expiry, outboxContext)
}

function checkContext(context: Uint8Array, maxSize: number): Uint8Array {
  if (context instanceof Uint8Array && context.length <= maxSize) return context
  if (context instanceof Uint8Array) {
    throw new InvalidOptionError('context', `must have at most ${maxSize} bytes, the maxSize of the outbox; it has ${context.length}.`)
  }
  throw new InvalidOptionError('context', `must be bytes, as a Uint8Array; it is ${describeValue(context)}.`)
}

function cutoffText(cutoff: number | undefined): string {
  if (cutoff === undefined) return ''
  checkTime('cutoff', cutoff)
  return String(cutoff)
}

function conflict(subject: string, { message }: NewOutboxRecord, cause: Error): AckordError {
  const text = `Cannot revoke '${subject}': the outbox has another event with the id '${message.id}'. Give each event an id of its own.`
  return new AckordError('ACKORD_DUPLICATE_ID', text, { cause })
}
