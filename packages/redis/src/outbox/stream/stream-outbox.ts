import { InvalidOptionError, type Logger, type Metrics, probe, TransactionRequiredError } from '@ackord/core'
import { checkCount, checkDuration, checkFunction, checkName, checkNoMore, guardLogger, guardMetrics } from '@ackord/core/internal'
import {
  checkReferences,
  defaultMaxSize,
  type NewOutboxRecord,
  type OutboxAdmin,
  type OutboxReference,
  type OutboxStore,
  type OutboxWriter,
} from '@ackord/outbox'
import { consumerName } from '../../client/consumer-name.ts'
import { defaultTag, keySlot } from '../../client/keys.ts'
import type { RedisArgument } from '../../client/port.ts'
import type { QueuedCommand } from '../../client/queued-command.ts'
import { internalsOf, type Redis } from '../../transaction/redis.ts'
import { splitCommand } from '../../transaction/split-command.ts'
import type { RedisTransaction } from '../../transaction/transaction.ts'
import { fieldsOf, type StreamCodec } from '../record-fields.ts'
import { cancelCommand, rememberDelayed } from './cancel-entries.ts'
import type { OutboxHome } from './context.ts'
import { Lanes } from './destination-stream.ts'
import { streamAdministration } from './stream-administration.ts'
import { StreamClaims } from './stream-claims.ts'
import { streamWakeUps } from './stream-wake-ups.ts'

export interface StreamOutboxOptions {
  /** What the keys are called, behind their tag: `{tag}:outbox:…`. Default: `outbox`. */
  readonly stream?: string | undefined
  /**
   * The hash tags under which there are records. Those of a transaction are stored under the tag that is in the slot of its other keys, or
   * under the first if it has none; a relay reads all. Each is a slot, so it takes several to use more than one node of a cluster. Default: `['ackord']`.
   */
  readonly tags?: readonly string[] | undefined
  /** The consumer group that all relays of this outbox share. Default: `relay`. */
  readonly group?: string | undefined
  /** Names this store object among the others of its group. Default: host, process and a random part. */
  readonly consumer?: string | undefined
  /** The most bytes of a record: of its data, its attributes as JSON and its destination. A larger one is refused, before anything is written. Default: 5 MB. */
  readonly maxSize?: number | undefined
  /** Milliseconds that a read for wake-ups blocks. Default: 1,000. */
  readonly block?: number | undefined
  /**
   * Milliseconds between two looks for records whose relay is gone. Each takes a moment for everything that is in hand anywhere. Also how long a destination may have no
   * record before claims stop asking for it, until the next one is stored. Default: 1,000.
   */
  readonly claimInterval?: number | undefined
  /**
   * Milliseconds after which records are taken over from a consumer that is none of Ackord's, because ours have the lease of their claim; and after
   * which a consumer that holds nothing and was not seen is removed, as are the keys of a destination without records. Default: 60,000.
   */
  readonly idleTime?: number | undefined
  /** Makes the fields of an entry of a message. Default: the attributes as JSON, and the data as it is. */
  readonly marshal?: StreamCodec['marshal'] | undefined
  /** The other way round. What it throws at is parked. Default: for the default of `marshal`, without which it must be given. */
  readonly unmarshal?: StreamCodec['unmarshal'] | undefined
  /** Told of records that cannot be read or were trimmed, and of what operators do. Default: the logger of `redis`. */
  readonly logger?: Logger | undefined
  /** Counts records that cannot be read or were trimmed. Default: nothing. */
  readonly metrics?: Metrics | undefined
}

/** An outbox in streams: the relay's side, the operators', and the writing one. */
export interface StreamOutbox extends OutboxStore, OutboxAdmin, OutboxWriter<RedisTransaction> {
  /**
   * Removes delayed records when the transaction commits. See `OutboxWriter.cancel()`. It resolves to `undefined`, because the outcome is known only at the commit.
   * It reads all that is in the streams of these destinations to find the records; a Lua outbox finds them by their ids. A record under a tag in another slot than the
   * transaction's keys is refused with `CrossSlotError`.
   */
  cancel(transaction: RedisTransaction, references: readonly OutboxReference[]): Promise<undefined>
}

/** The outbox of a Redis: a stream per destination, in which records stay until they are published. Does no I/O until it is used. */
export function streamOutbox(redis: Redis, options: StreamOutboxOptions = {}): StreamOutbox {
  const internals = internalsOf(redis)
  const { port, deadline, runtime } = internals
  const {
    stream = 'outbox',
    tags = [defaultTag],
    group = 'relay',
    consumer = consumerName(runtime),
    maxSize = defaultMaxSize,
    block = 1_000,
    claimInterval = 1_000,
    idleTime = 60_000,
    marshal,
    unmarshal,
    logger,
    metrics,
    ...unknown
  } = options
  checkNoMore('streamOutbox()', unknown)
  checkName('stream', stream)
  checkName('group', group)
  checkName('consumer', consumer)
  checkCount('maxSize', maxSize)
  checkDuration('block', block, { min: 1 })
  checkDuration('claimInterval', claimInterval)
  checkDuration('idleTime', idleTime, { min: 1 })
  const lanes = new Lanes(checkTags(tags), stream)
  const home: OutboxHome = {
    port,
    lanes,
    group,
    codec: codecOf(marshal, unmarshal),
    runtime,
    logger: logger === undefined ? internals.logger : guardLogger(logger),
    metrics: metrics === undefined ? undefined : guardMetrics(metrics),
  }
  const nextOrder = orderOf(runtime.uuid())
  const claims = new StreamClaims(home, { consumer, claimInterval, idleTime })
  const slots = new Map(tags.map((tag) => [slotOf(lanes.destinationsKey(tag)), tag]))

  function slotOf(key: RedisArgument): number {
    return keySlot(Buffer.concat([Buffer.from(port.keyPrefix), Buffer.from(key)]))
  }

  /** Where the transaction already is; whether a key elsewhere is allowed is for it to say. */
  function tagFor({ anchor }: RedisTransaction): string {
    return (anchor === undefined ? undefined : slots.get(slotOf(anchor))) ?? (tags[0] as string)
  }

  function commandsFor(tag: string, records: readonly NewOutboxRecord[]): readonly QueuedCommand[] {
    const added = records.map((record): QueuedCommand => {
      const fields = fieldsOf(record, home.codec, nextOrder(), maxSize)
      const { stream } = lanes.get(tag, record.destination).keys
      return rememberDelayed({ name: 'XADD', args: [stream, '*', ...fields], keys: [0], kind: 'stream' }, stream, record)
    })
    const destinations = new Set(records.map(({ destination }) => destination))
    const known: QueuedCommand = { name: 'SADD', args: [lanes.destinationsKey(tag), ...destinations], keys: [0], kind: 'set' }
    const wake: QueuedCommand = { name: 'XADD', args: [lanes.wakeKey(tag), 'MAXLEN', '1', '*', 'n', '1'], keys: [0], kind: 'stream' }
    return [known, ...added, wake]
  }

  return {
    capabilities: { order: 'none', delay: true, preLease: false },
    claim: (asked) => claims.claim(asked),
    renew: (held, lease) => claims.renew(held, lease),
    release: (held) => claims.release(held),
    settle: (outcomes) => claims.settle(outcomes),
    ...streamAdministration(home, nextOrder),

    async append(transaction, records) {
      if (typeof transaction?.queueEvent !== 'function') throw new TransactionRequiredError('append()')
      if (records.length === 0) return
      // All of them first: one that cannot be stored must not leave the others behind.
      const commands = commandsFor(tagFor(transaction), records).flatMap((command) => splitCommand(command))
      for (const command of commands) transaction.queueEvent(command)
      await probe('outbox.appended')
    },

    async cancel(transaction, references) {
      if (typeof transaction?.queueEvent !== 'function') throw new TransactionRequiredError('cancel()')
      checkReferences(references)
      const commands: QueuedCommand[] = []
      for (const destination of new Set(references.map((one) => one.destination))) {
        const own = references.filter((one) => one.destination === destination)
        for (const tag of tags) {
          const { command, found } = await cancelCommand(home, lanes.get(tag, destination), own)
          // Under its own tag the transaction may have appended what is to be cancelled.
          if (found > 0 || tag === tagFor(transaction)) commands.push(command)
        }
      }
      for (const command of commands) transaction.queueEvent(command)
      return undefined
    },

    wakeUps: ({ signal }) => streamWakeUps(home, { signal, block, deadline }),
  }
}

function codecOf(marshal: StreamCodec['marshal'] | undefined, unmarshal: StreamCodec['unmarshal'] | undefined): StreamCodec | undefined {
  if (marshal === undefined && unmarshal === undefined) return undefined
  // One without the other would park everything.
  return { marshal: checkFunction('marshal', marshal), unmarshal: checkFunction('unmarshal', unmarshal) } as StreamCodec
}

function checkTags(tags: readonly string[]): readonly string[] {
  if (!Array.isArray(tags) || tags.length === 0) throw new InvalidOptionError('tags', 'must be a list of texts, at least one.')
  for (const [index, tag] of tags.entries()) {
    checkName(`tags[${index}]`, tag)
    if (tags.indexOf(tag) !== index) throw new InvalidOptionError('tags', `names '${tag}' twice.`)
  }
  return tags
}

/** Texts in the order in which they were asked for. */
function orderOf(random: string): () => string {
  const prefix = random.slice(0, 6)
  let count = 0
  return () => {
    count += 1
    return prefix + count.toString(36).padStart(9, '0')
  }
}
