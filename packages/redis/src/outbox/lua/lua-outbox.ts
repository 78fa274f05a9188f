import { AckordError, InvalidOptionError, type Logger, type Metrics, TransactionRequiredError } from '@ackord/core'
import {
  checkChoice,
  checkCount,
  checkDuration,
  checkFunction,
  checkName,
  groupBy,
  PartPorts,
  probe,
  rejectUnknownOptions,
} from '@ackord/core/internal'
import {
  type CompleteAdministration,
  completeAdministration,
  completeReferences,
  defaultMaxSize,
  type EventReferences,
  eventCompleter,
  type NewEventOptions,
  type NewEvents,
  type NewOutboxRecord,
  type OutboxNotes,
  type OutboxStore,
  type OutboxWriter,
  type RecordTaker,
  recordEncoder,
  relayDefaults,
} from '@ackord/outbox'
import { defaultTag } from '../../client/keys.ts'
import type { RedisArgument } from '../../client/port.ts'
import { asList } from '../../client/reply.ts'
import { internalsOf, type Redis } from '../../transaction/redis.ts'
import type { RedisTransaction } from '../../transaction/transaction.ts'
import { addOutboxWithoutCodecs } from '../outboxes-without-codecs.ts'
import { redisNotes } from '../redis-notes.ts'
import { followWakeStream, type WakeUpsOptions, wakeUps } from '../wake-ups.ts'
import { cancelDirectly, cancelInTransaction } from './cancel-records.ts'
import { type LuaOutboxContext, runOn, withContext } from './context.ts'
import { countEnqueued, EnqueueCalls, type EnqueueResult, enqueueArguments, PreLeases } from './enqueue.ts'
import { keyCount, type LuaShard, LuaShards } from './layout.ts'
import { luaAdministration } from './lua-administration.ts'
import { checkBackoff, type LuaBackoff, LuaClaims, type LuaOutcome } from './lua-claims.ts'
import { type StoredRecord, storedRecord } from './record-body.ts'
import { outboxFragment } from './scripts/commit-fragment.ts'
import { enqueueScript } from './scripts/enqueue.ts'
import { verifyScript } from './scripts/verify.ts'

export interface LuaOutboxOptions extends NewEventOptions {
  /** The name of the keys, behind their tag: `{tag}:lua-outbox:…`. Default: `lua-outbox`. */
  readonly name?: string | undefined
  /** The hash tag of the keys, which selects their slot. Further shards have their number behind it: `{tag:1}`. Default: `ackord`. */
  readonly tag?: string | undefined
  /**
   * The number of shards, each in a slot of its own: one slot uses one core. A record is in the shard of its transaction's other keys, otherwise by
   * its ordering key, otherwise by its id. Shards can be added later, but not removed: their records would not be found. Default: 1.
   */
  readonly shards?: number | undefined
  /**
   * `perKey`: events of one destination and ordering key (`partitionkey`) are published in the order of their commits; the relays share the keys. All events
   * of a key are in the shard of the key, so a transaction may store only those whose shard is in its slot, and the number of shards must not change while there
   * are events. It is fixed for a `name`: an outbox that was begun with order cannot be used without, nor the other way round. Default: `none`.
   */
  readonly order?: 'none' | 'perKey' | undefined
  /** With `order: 'perKey'`: whether one relay at a time polls a shard. Another takes over when it stops, or when its lease expires. Default: false. */
  readonly exclusive?: boolean | undefined
  /**
   * Whether published records are kept until `deletePublished()`, which the relay's `cleanup` or an operator calls. While a record is kept, storing it
   * again is a duplicate; otherwise only until it is published. Default: false.
   */
  readonly retain?: boolean | undefined
  /** The maximum size of a record in bytes: its data, its attributes as JSON and its destination. Larger records are refused before anything is written. Default: 5 MB. */
  readonly maxSize?: number | undefined
  /**
   * How a transaction or script is treated whose record has the id of a different one: `refuse`: nothing of it is stored. `ignore`: the
   * first record stays. `enqueue()` reports conflicts with stored records, and refuses two in one call. Default: `refuse`.
   */
  readonly onConflict?: 'refuse' | 'ignore' | undefined
  /** For outcomes without `retryAfter`, by the stored attempts. The relay always passes one, from its own `backoff`. Default: 1 s × 2ⁿ up to 1 min, ± 20 %. */
  readonly backoff?: LuaBackoff | undefined
  /** The number of attempts after which an outcome without `retryAfter` parks its record. Default: 10. */
  readonly maxAttempts?: number | undefined
  /** Redacts an error text, and its cause, before it is stored. Default: the text, up to 10,000 characters. */
  readonly redact?: ((error: string) => string) | undefined
  /** Milliseconds for which a read for wake-ups blocks. Default: 1,000. */
  readonly block?: number | undefined
  /** Logs records that cannot be read, index entries without a record, and what operators do. Default: the logger of `redis`. */
  readonly logger?: Logger | undefined
  /** Counts records that are stored, cancelled, parked as unreadable, removed from indexes, re-armed, discarded and deleted. Default: none. */
  readonly metrics?: Metrics | undefined
}

/** For a MULTI or a script of your own: the keys and arguments of records that are to be stored. */
export interface PreparedRecords {
  /** A script that only stores them, with these keys and arguments. In a MULTI, send the whole script: EVALSHA with an unknown digest fails alone. */
  readonly lua: string
  /** All in one slot. Without the client's key prefix, which its `eval` adds. */
  readonly keys: readonly string[]
  readonly args: readonly RedisArgument[]
}

/**
 * An outbox in which every transition is one script: for the relay, for operators, and for transactions that store records. Records are indexed by their state and age, and by
 * their message id; every other filter reads all records, in pages of 100.
 */
export interface LuaOutbox extends OutboxStore, CompleteAdministration, OutboxWriter<RedisTransaction> {
  readonly notes: OutboxNotes
  settle(outcomes: readonly LuaOutcome[]): Promise<readonly ('applied' | 'lost')[]>
  /**
   * Stores records without a transaction. Resolves to the result of each, in their order. Those of one shard are stored in one step, maybe with those of
   * other calls. It can be repeated after a failure: stored records are duplicates.
   */
  enqueue(events: NewEvents): Promise<readonly EnqueueResult[]>
  /**
   * Removes delayed records when the transaction commits. See `OutboxWriter.cancel()`. It resolves to `undefined`, because the outcome is known only at the commit.
   * A record in another slot than the transaction's keys is refused with `CrossSlotError`. A record that an operator moved to another destination is not found.
   */
  cancel(transaction: RedisTransaction, references: EventReferences): Promise<undefined>
  /** Removes delayed records without a transaction. Resolves to whether each was removed, in their order. It can be repeated after a failure. */
  cancelNow(references: EventReferences): Promise<readonly boolean[]>
  /** Throws if a record cannot be stored. `tag`: a result of `tagOf()`. Default: by the first record. */
  prepare(events: NewEvents, options?: { readonly tag?: string | undefined }): PreparedRecords
  /** The tag of an ordering key: with it, `redis.key(tag, …)` is in the slot of the key's events. */
  tagOf(orderingKey: string): string
  /** Tries every command on every shard, for the start of a service. Rejects with what is missing: a permission, scripts, a key of another type. */
  verify(): Promise<void>
}

/** An outbox for services whose business writes are Redis writes. Does no I/O until it is used. */
export function luaOutbox(redis: Redis, options: LuaOutboxOptions = {}): LuaOutbox {
  const internals = internalsOf(redis)
  const { port, deadline, runtime } = internals
  const {
    name = 'lua-outbox',
    tag = defaultTag,
    shards: count = 1,
    order = 'none',
    exclusive = false,
    retain = false,
    maxSize = defaultMaxSize,
    onConflict = 'refuse',
    backoff = {},
    maxAttempts = relayDefaults.maxAttempts,
    redact,
    block = 1_000,
    logger,
    metrics,
    source,
    destination,
    marshaler,
    codecs,
    codecTimeout,
    ...unknown
  } = options
  rejectUnknownOptions('luaOutbox()', unknown)
  const complete = eventCompleter('luaOutbox', { source, destination, marshaler }, runtime)
  const encode = recordEncoder({ codecs, codecTimeout }, runtime)
  checkName('name', name)
  checkName('tag', tag)
  checkCount('shards', count)
  const ordered = checkChoice('order', order, ['none', 'perKey']) === 'perKey'
  if (exclusive && !ordered) throw new InvalidOptionError('exclusive', "needs order 'perKey'.")
  checkCount('maxSize', maxSize)
  checkChoice('onConflict', onConflict, ['refuse', 'ignore'])
  checkCount('maxAttempts', maxAttempts)
  checkDuration('block', block, { min: 1 })
  if (redact !== undefined) checkFunction('redact', redact)
  const ports = new PartPorts({ logger: logger ?? internals.logger, metrics }, [internals.ports])
  const context: LuaOutboxContext = {
    port,
    shards: new LuaShards({ tag, name, count, keyPrefix: port.keyPrefix }),
    runtime,
    logger: ports.logger,
    get metrics() {
      return ports.metrics
    },
    maxSize,
    ordered,
  }
  const { shards } = context
  const claims = new LuaClaims(context, { retain, backoff: checkBackoff(backoff), maxAttempts, redact, exclusive }, internals.tokens)
  const notes = redisNotes(port, (...parts) => (shards.all[0] as LuaShard).key(...parts))
  const preLeases = new PreLeases(runtime, internals.tokens)
  const calls = new EnqueueCalls(context, preLeases)
  const strict = onConflict === 'refuse'

  function storedRecords(records: readonly NewOutboxRecord[]): readonly StoredRecord[] {
    const stored = records.map((record) => storedRecord(record, context))
    const prints = new Map<string, string>()
    for (const [index, { id, print }] of stored.entries()) {
      if (strict && prints.has(id) && prints.get(id) !== print) throw sameId(records[index] as NewOutboxRecord)
      prints.set(id, print)
    }
    return stored
  }

  /** The indexes of the records for each shard: by the ordering key, and those without one for `keyless`, or by their id. */
  function indexesByShard(records: readonly NewOutboxRecord[], keyless?: LuaShard): readonly (readonly [LuaShard, readonly number[]])[] {
    const shardOf = ({ message }: NewOutboxRecord) =>
      keyless !== undefined && message.attributes.partitionkey === undefined ? keyless : shards.of(message)
    return groupBy(records.keys(), (index) => shardOf(records[index] as NewOutboxRecord))
  }

  function queueRecords(transaction: RedisTransaction, records: readonly NewOutboxRecord[]): void {
    const [first] = records
    if (first === undefined) return
    const { anchor } = transaction
    // The shard in the slot of the transaction's keys. The transaction decides whether it accepts a key in another slot.
    const beside = (anchor === undefined ? undefined : shards.beside(anchor)) ?? shards.of(first.message)
    const stored = storedRecords(records)
    const lease = preLeases.takes(stored) ? preLeases.lease(stored) : undefined
    for (const [shard, indexes] of ordered ? indexesByShard(records, beside) : [[beside, [...stored.keys()]] as const]) {
      const own = indexes.map((index) => stored[index] as StoredRecord)
      transaction.queueEvent({
        name: 'append()',
        args: [...shard.keys, ...enqueueArguments(own, { strict, ordered, lease })],
        keys: keyIndexes,
        kind: outboxFragment,
        onStored(answer) {
          lease?.handOver(shard, answer)
          countEnqueued(context, answer)
        },
      })
    }
  }

  const outbox: LuaOutbox = {
    capabilities: { order, delay: true, preLease: !ordered },
    inheritPorts: ports.inheritPorts,
    claim: (asked) => claims.claim(asked),
    renew: (held, lease) => claims.renew(held, lease),
    release: (held) => claims.release(held),
    settle: (outcomes) => claims.settle(outcomes),
    ...completeAdministration(luaAdministration(context), { notes, runtime }),
    notes,
    ...(ordered ? { leave: () => claims.leave() } : { attach: (taker: RecordTaker) => preLeases.attach(taker) }),
    wakeUps: ({ signal }) => luaWakeUps(context, { signal, block, deadline }),

    async append(transaction, events) {
      if (typeof transaction?.queueEvent !== 'function') throw new TransactionRequiredError('append()')
      const completed = complete(events)
      if (completed.length === 0) return
      if (encode === undefined) queueRecords(transaction, completed)
      else {
        const queueing = encode(completed, transaction).then((encoded) => queueRecords(transaction, encoded))
        await (transaction.waitFor?.(queueing) ?? queueing)
      }
      await probe('outbox.appended')
    },

    async enqueue(events) {
      const completed = complete(events)
      const records = encode === undefined ? completed : await encode(completed)
      const stored = storedRecords(records)
      const [only] = shards.all
      if (only !== undefined && shards.all.length === 1) return await calls.enqueue(only, stored)
      const results: EnqueueResult[] = []
      const running = Array.from(indexesByShard(records), async ([shard, indexes]) => {
        const own = await calls.enqueue(
          shard,
          indexes.map((index) => stored[index] as StoredRecord),
        )
        for (const [at, index] of indexes.entries()) results[index] = own[at] as EnqueueResult
      })
      await Promise.all(running)
      return results
    },

    async cancel(transaction, given) {
      if (typeof transaction?.queueEvent !== 'function') throw new TransactionRequiredError('cancel()')
      const references = completeReferences(given, { source, destination })
      if (references.length > 0) await cancelInTransaction(context, transaction, references)
      return undefined
    },

    cancelNow: async (references) => await cancelDirectly(context, completeReferences(references, { source, destination })),

    prepare(events, { tag: wanted } = {}) {
      if (encode !== undefined) throw new InvalidOptionError('prepare()', preparedWithCodecs)
      const records = complete(events)
      const [first] = records
      if (first === undefined) throw new InvalidOptionError('records', 'must be a list of at least one.')
      const shard = wanted === undefined ? shards.of(first.message) : shards.byTag(wanted)
      if (shard === undefined) throw new InvalidOptionError('tag', `must be one that tagOf() gave; it is '${wanted}'.`)
      if (ordered) for (const { message } of records) shards.checkKey(message, shard)
      return { lua: enqueueScript.lua, keys: shard.keys, args: enqueueArguments(storedRecords(records), { strict, ordered }) }
    },

    tagOf: (orderingKey) => shards.byKey(checkName('orderingKey', orderingKey)).tag,

    async verify() {
      for (const shard of shards.all) {
        const problems = await verified(context, shard)
        if (problems.length > 0) throw unusable(shard, problems)
      }
    },
  }
  return withContext(encode === undefined ? addOutboxWithoutCodecs(outbox) : outbox, context)
}

const preparedWithCodecs =
  'is synchronous, and cannot be used on an outbox with `codecs`. Encode the messages with encodePayload(), and prepare them with a luaOutbox() without codecs.'

const keyIndexes: readonly number[] = Array.from({ length: keyCount }, (_, index) => index)

async function verified(context: LuaOutboxContext, shard: LuaShard): Promise<readonly string[]> {
  try {
    return asList(await runOn(context, shard, verifyScript, [context.ordered ? '1' : '0'])).map(String)
  } catch (error) {
    // Errors of the server, or of a proxy before it; connection errors are rethrown.
    if (error instanceof Error && /\bNOPERM\b|\bCROSSSLOT\b|unknown command|not allowed|ACL failure/i.test(error.message))
      return [error.message]
    throw error
  }
}

function unusable({ tag }: LuaShard, problems: readonly string[]): AckordError {
  const text = `The Lua outbox under {${tag}} cannot be used: ${problems.join('; ')}. Its user needs EVAL and EVALSHA, the commands of the scripts, and all keys of that tag.`
  return new AckordError('ACKORD_SCHEMA', text)
}

function sameId({ destination, message }: NewOutboxRecord): AckordError {
  const text = `Two records for '${destination}' have the id '${message.id}' and different content. Give each event an id of its own.`
  return new AckordError('ACKORD_DUPLICATE_ID', text)
}

/** Yields when a record was stored or re-armed. */
function luaWakeUps(context: LuaOutboxContext, options: WakeUpsOptions): AsyncGenerator<void, void, void> {
  return wakeUps(context, context.shards.all, options, (shard, follower) => followWakeStream(shard.key('wake'), options.block, follower))
}
