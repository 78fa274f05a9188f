import { InvalidOptionError, type Logger, type Metrics, TransactionRequiredError } from '@ackord/core'
import { checkCount, checkDuration, checkFunction, checkName, PartPorts, probe, rejectUnknownOptions } from '@ackord/core/internal'
import {
  type CompleteAdministration,
  completeAdministration,
  completeReferences,
  defaultMaxSize,
  type EventReferences,
  eventCompleter,
  type NewEventOptions,
  type NewOutboxRecord,
  type OutboxNotes,
  type OutboxStore,
  type OutboxWriter,
  recordEncoder,
} from '@ackord/outbox'
import { consumerName } from '../../client/consumer-name.ts'
import { defaultTag, keySlot } from '../../client/keys.ts'
import type { RedisArgument } from '../../client/port.ts'
import type { QueuedCommand } from '../../client/queued-command.ts'
import { internalsOf, type Redis } from '../../transaction/redis.ts'
import { checkWords, splitCommand } from '../../transaction/split-command.ts'
import type { RedisTransaction } from '../../transaction/transaction.ts'
import { addOutboxWithoutCodecs } from '../outboxes-without-codecs.ts'
import { fieldsOf, type StreamCodec } from '../record-fields.ts'
import { redisNotes } from '../redis-notes.ts'
import { followWakeStream, type WakeUpsOptions, wakeUps } from '../wake-ups.ts'
import { cancelCommand, rememberDelayed } from './cancel-entries.ts'
import type { StreamOutboxContext } from './context.ts'
import { DestinationStreams, largeEntry } from './destination-stream.ts'
import { appendFragment } from './scripts/index-scripts.ts'
import { streamAdministration } from './stream-administration.ts'
import { StreamClaims } from './stream-claims.ts'

export interface StreamOutboxOptions extends NewEventOptions {
  /** The name of the keys, behind their tag: `{tag}:outbox:…`. Default: `outbox`. */
  readonly stream?: string | undefined
  /**
   * The hash tags of the records. A transaction stores its records under the tag in the slot of its other keys, or under the first tag if it has no key yet; a relay
   * reads all. Each tag is one slot: use several to spread the records over the nodes of a cluster. The notes of relays and operators are under the first tag, which must be the
   * same for all of them. Default: `['ackord']`.
   */
  readonly tags?: readonly string[] | undefined
  /** The consumer group that all relays of this outbox share. Default: `relay`. */
  readonly group?: string | undefined
  /** Names this store object among the others of its group. Default: host, process and a random part. */
  readonly consumer?: string | undefined
  /** The maximum size of a record in bytes: its data, its attributes as JSON and its destination. Larger records are refused before anything is written. Default: 5 MB. */
  readonly maxSize?: number | undefined
  /**
   * Whether the message ids of new records are indexed, so that `find()` and the filter `messageId` do not read all records. It costs about 230 bytes for each stored record, and
   * about 40 % more of the server's time to store and publish it. Should be the same for all processes that append: while one of them stores records without it, searches read all
   * records. Others, such as relays, need not set it: every search uses an index that is complete. A search by a process that sets it completes the index first. Default: false.
   */
  readonly messageIndex?: boolean | undefined
  /** Milliseconds for which a read for wake-ups blocks. Default: 1,000. */
  readonly block?: number | undefined
  /**
   * Milliseconds between two searches for records of relays that are gone. The cost of a search grows with the number of claimed records. Also how long a destination may
   * be empty before claims stop asking for it, until the next record is stored. Default: 1,000.
   */
  readonly claimInterval?: number | undefined
  /**
   * Milliseconds after which records are taken over from a consumer that Ackord did not create (those of Ackord have the lease of their claim); after
   * which an idle consumer without records is removed; and after which the keys of a destination without records are deleted. Default: 60,000.
   */
  readonly idleTime?: number | undefined
  /** Turns a message into the fields of an entry. Default: the attributes as JSON, and the data as it is. */
  readonly marshal?: StreamCodec['marshal'] | undefined
  /** Turns the fields of an entry into a message. If it throws, the record is parked. Default: for the default of `marshal`; required together with another one. */
  readonly unmarshal?: StreamCodec['unmarshal'] | undefined
  /** Logs records that cannot be read or were trimmed, and what operators do. Default: the logger of `redis`. */
  readonly logger?: Logger | undefined
  /** Counts records that cannot be read or were trimmed. Default: none. */
  readonly metrics?: Metrics | undefined
}

/**
 * An outbox in streams: for the relay, for operators, and for transactions that store records. `find()`, and every filter but `destination` and the state `parked`, reads all
 * records, in pages of 100. With `messageIndex`, on Redis 7.0 and newer, records are indexed by their message id.
 */
export interface StreamOutbox extends OutboxStore, CompleteAdministration, OutboxWriter<RedisTransaction> {
  readonly notes: OutboxNotes
  /**
   * Removes delayed records when the transaction commits. See `OutboxWriter.cancel()`. It resolves to `undefined`, because the outcome is known only at the commit.
   * It reads the whole streams of these destinations to find the records; a Lua outbox finds them by their ids. A record under a tag in another slot than the
   * transaction's keys is refused with `CrossSlotError`.
   */
  cancel(transaction: RedisTransaction, references: EventReferences): Promise<undefined>
}

/** An outbox with a stream per destination, in which records stay until they are published. Does no I/O until it is used. */
export function streamOutbox(redis: Redis, options: StreamOutboxOptions = {}): StreamOutbox {
  const internals = internalsOf(redis)
  const { port, deadline, runtime } = internals
  const {
    stream: name = 'outbox',
    tags = [defaultTag],
    group = 'relay',
    consumer = consumerName(runtime),
    maxSize = defaultMaxSize,
    messageIndex = false,
    block = 1_000,
    claimInterval = 1_000,
    idleTime = 60_000,
    marshal,
    unmarshal,
    logger,
    metrics,
    source,
    destination,
    marshaler,
    codecs,
    codecTimeout,
    ...unknown
  } = options
  rejectUnknownOptions('streamOutbox()', unknown)
  const complete = eventCompleter('streamOutbox', { source, destination, marshaler }, runtime)
  const encode = recordEncoder({ codecs, codecTimeout }, runtime)
  checkName('stream', name)
  checkName('group', group)
  checkName('consumer', consumer)
  checkCount('maxSize', maxSize)
  checkDuration('block', block, { min: 1 })
  checkDuration('claimInterval', claimInterval)
  checkDuration('idleTime', idleTime, { min: 1 })
  const streams = new DestinationStreams(checkTags(tags), name)
  const ports = new PartPorts({ logger: logger ?? internals.logger, metrics }, [internals.ports])
  const context: StreamOutboxContext = {
    port,
    streams,
    group,
    codec: codecOf(marshal, unmarshal),
    messageIndex,
    runtime,
    logger: ports.logger,
    get metrics() {
      return ports.metrics
    },
  }
  const nextOrder = orderOf(runtime.uuid())
  const notes = redisNotes(port, (...parts) => streams.noteKey(...parts))
  const claims = new StreamClaims(context, { consumer, claimInterval, idleTime })
  const slots = new Map(tags.map((tag) => [slotOf(streams.destinationsKey(tag)), tag]))

  function slotOf(key: RedisArgument): number {
    return keySlot(Buffer.concat([Buffer.from(port.keyPrefix), Buffer.from(key)]))
  }

  /** The tag in the slot of the transaction's keys. The transaction decides whether it accepts a key in another slot. */
  function tagFor({ anchor }: RedisTransaction): string {
    return (anchor === undefined ? undefined : slots.get(slotOf(anchor))) ?? (tags[0] as string)
  }

  function commandsFor(tag: string, records: readonly NewOutboxRecord[]): readonly QueuedCommand[] {
    const gates = new Set<string>()
    const added = records.map((record): QueuedCommand => {
      const fields = fieldsOf(record, context.codec, nextOrder(), maxSize)
      const { entries, errors, gate } = streams.get(tag, record.destination).keys
      if (isLarge(fields)) gates.add(gate)
      const command: QueuedCommand = messageIndex
        ? indexedAppend([entries, errors], fields, String(record.message.attributes.id))
        : { name: 'XADD', args: [entries, '*', ...fields], keys: [0], kind: 'stream' }
      return rememberDelayed(command, entries, record)
    })
    const destinations = new Set(records.map(({ destination }) => destination))
    const known: QueuedCommand = { name: 'SADD', args: [streams.destinationsKey(tag), ...destinations], keys: [0], kind: 'set' }
    // Gates are closed first: a commit that fails halfway must not leave a large entry behind an open gate.
    const closed = Array.from(gates, (gate): QueuedCommand => ({ name: 'SET', args: [gate, 'closed'], keys: [0], kind: 'any' }))
    return [...closed, known, ...added]
  }

  function queueRecords(transaction: RedisTransaction, records: readonly NewOutboxRecord[]): void {
    // All commands are made before the first is queued: a record that cannot be stored must not leave others behind.
    const tag = tagFor(transaction)
    const commands = commandsFor(tag, records).flatMap((command) => splitCommand(command))
    for (const command of commands) transaction.queueEvent(command)
    transaction.queueWakeUp(streams.wakeKey(tag))
  }

  const outbox: StreamOutbox = {
    capabilities: { order: 'none', delay: true, preLease: false },
    inheritPorts: ports.inheritPorts,
    claim: (asked) => claims.claim(asked),
    renew: (claimed, lease) => claims.renew(claimed, lease),
    release: (claimed) => claims.release(claimed),
    settle: (outcomes) => claims.settle(outcomes),
    ...completeAdministration(streamAdministration(context, nextOrder), { notes, runtime }),
    notes,

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

    async cancel(transaction, given) {
      if (typeof transaction?.queueEvent !== 'function') throw new TransactionRequiredError('cancel()')
      const references = completeReferences(given, { source, destination })
      const commands: QueuedCommand[] = []
      for (const destination of new Set(references.map((one) => one.destination))) {
        const own = references.filter((one) => one.destination === destination)
        for (const tag of tags) {
          const { command, found } = await cancelCommand(context, streams.get(tag, destination), own)
          // Under its own tag, the transaction itself may have appended the records.
          if (found > 0 || tag === tagFor(transaction)) commands.push(command)
        }
      }
      for (const command of commands) transaction.queueEvent(command)
      return undefined
    },

    wakeUps: ({ signal }) => streamWakeUps(context, { signal, block, deadline }),
  }
  return encode === undefined ? addOutboxWithoutCodecs(outbox) : outbox
}

function indexedAppend(keys: readonly [string, string], fields: readonly RedisArgument[], messageId: string): QueuedCommand {
  checkWords('XADD', fields.length + 2)
  return { name: 'XADD', args: [...keys, '*', ...fields, messageId], keys: [0, 1], kind: appendFragment }
}

function isLarge(fields: readonly RedisArgument[]): boolean {
  let length = 0
  for (const field of fields) length += field.length
  // No character of a string has more than three bytes.
  if (3 * length <= largeEntry) return false
  let bytes = 0
  for (const field of fields) bytes += Buffer.byteLength(field)
  return bytes > largeEntry
}

function codecOf(marshal: StreamCodec['marshal'] | undefined, unmarshal: StreamCodec['unmarshal'] | undefined): StreamCodec | undefined {
  if (marshal === undefined && unmarshal === undefined) return undefined
  // With only one of the two, every record would be parked.
  return { marshal: checkFunction('marshal', marshal), unmarshal: checkFunction('unmarshal', unmarshal) } as StreamCodec
}

function checkTags(tags: readonly string[]): readonly string[] {
  if (!Array.isArray(tags) || tags.length === 0) throw new InvalidOptionError('tags', 'must be a non-empty list of strings.')
  for (const [index, tag] of tags.entries()) {
    checkName(`tags[${index}]`, tag)
    if (tags.indexOf(tag) !== index) throw new InvalidOptionError('tags', `names '${tag}' twice.`)
  }
  return tags
}

/** Strings that sort in the order in which they were made. */
function orderOf(random: string): () => string {
  const prefix = random.slice(0, 6)
  let count = 0
  return () => {
    count += 1
    return prefix + count.toString(36).padStart(9, '0')
  }
}

/** Yields when a record was stored. Each tag is followed by itself: on a cluster they are on several nodes. */
function streamWakeUps(context: StreamOutboxContext, options: WakeUpsOptions): AsyncGenerator<void, void, void> {
  return wakeUps(context, context.streams.tags, options, (tag, follower) =>
    followWakeStream(context.streams.wakeKey(tag), options.block, follower),
  )
}
