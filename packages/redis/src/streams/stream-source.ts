import { type Backoff, type BrokerAddress, type Closable, exponentialBackoff, type Logger, type Source } from '@ackord/core'
import { createReceiver, IteratedSource, type ReceiverOptions } from '@ackord/core/broker'
import { checkChoice, checkCount, checkDuration, checkFunction, checkName, rejectUnknownOptions } from '@ackord/core/internal'
import { consumerName } from '../client/consumer-name.ts'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import type { RedisInternals } from '../transaction/redis-internals.ts'
import { readEntry, type StreamContent, type StreamEntry } from './entries/stream-entry.ts'
import { checkSameSlot, companionKey, shardNames } from './entries/stream-names.ts'
import { StreamGroup } from './group/stream-group.ts'
import { CompetingShard, CompetingShards } from './shards/competing.ts'
import { OwnedShards } from './shards/owned-shards.ts'
import type { ShardSettings } from './shards/shard.ts'
import { ShardMembers } from './shards/shard-ownership.ts'
import { type IterationSettings, StreamIteration } from './stream-iteration.ts'
import { trimStream } from './trim-stream.ts'

export interface StreamSourceOptions extends Omit<ReceiverOptions, 'deadLetter' | 'runtime' | 'logger'> {
  readonly stream: string
  /** Consumers of one group share its messages; each group gets every message. The group is created if it does not exist. */
  readonly group: string
  /** Reads this number of streams, `orders:0`, `orders:1` and so on, as a publisher with the same number writes them. Default: one stream under its own name. */
  readonly shards?: number | undefined
  /**
   * `none`: every instance reads every shard; messages may overtake each other if several are handled at once, nacked or taken over.
   * `perKey`: each shard is read by one instance at a time, and one message of each `partitionkey` is delivered at a time, the next one when it is
   * acked or dead-lettered. Default: 'none'.
   */
  readonly order?: 'none' | 'perKey' | undefined
  /** Where a new group starts: at the first entry, or with entries that are added from now on. Default: 'oldest'. */
  readonly from?: 'oldest' | 'newest' | undefined
  /** The maximum number of unsettled messages of an iteration, divided among its shards; at least one each. A router needs at least its `concurrency`. Default: 100. */
  readonly prefetch?: number | undefined
  /**
   * A message with more deliveries than this goes to the dead letter without being handled: it may be crashing its consumers. The router's own
   * `maxDeliveries` is for messages that fail. Default: Infinity, no limit.
   */
  readonly maxDeliveries?: number | undefined
  /**
   * Where rejected messages go: a stream in the same slot, in the same step in which they are acked; a publisher and destination;
   * or `'discard'`. Default: the stream beside their own, `{orders}:dead` for `orders`.
   */
  readonly deadLetter?: string | ReceiverOptions['deadLetter']
  /** Reads an entry as a message. If it throws, the entry is rejected. Default: the format of `streamPublisher()`; entries of other writers as a JSON object of their fields. */
  readonly read?: ((entry: StreamEntry) => StreamContent) | undefined
  /** Milliseconds for which a read waits for an entry at the server, on a connection of its own. Also the interval at which it looks for nacked messages of others. Default: 1,000. */
  readonly block?: number | undefined
  /** Milliseconds without renewal after which a message is taken over from its consumer; live consumers renew theirs at a third of it. For order `none`. Default: 60,000. */
  readonly claimIdle?: number | undefined
  /** Milliseconds between two searches for such messages. Default: 30,000. */
  readonly claimInterval?: number | undefined
  /** Milliseconds without renewal after which a shard is taken over from its instance. For order `perKey`. Default: 30,000. */
  readonly lease?: number | undefined
  /** Milliseconds between two runs of `trimStream()`. Default: the source never trims. */
  readonly trimInterval?: number | undefined
  /** The pause after a failed read. Default: 100 ms × 2ⁿ up to 30 s, ± 20 %. */
  readonly backoff?: Backoff | undefined
  /** Logs once when a stream cannot be read and once when it can be again, when a group is created again, and entries that are rejected unread or lost. Default: the logger of `redis`. */
  readonly logger?: Logger | undefined
}

/**
 * The messages of a stream, or of its shards, for one consumer group. Each iteration is a consumer of its own, with a connection of its own for each
 * shard that it reads. It may be iterated several times, also concurrently.
 *
 * After a lost connection, a server restart or the loss of the group with its stream, it logs once and reads again as soon as that is possible.
 * Settling a message that another consumer has taken over rejects with `ACKORD_LEASE_LOST`.
 */
export function streamSource(redis: Redis, options: StreamSourceOptions): Source & Closable {
  const {
    stream,
    group,
    shards,
    order = 'none',
    from = 'oldest',
    prefetch = 100,
    maxDeliveries = Infinity,
    deadLetter,
    deadLetterTimeout,
    onUndeliverable,
    read = readEntry,
    block = 1000,
    claimIdle = 60_000,
    claimInterval = 30_000,
    lease = 30_000,
    trimInterval,
    backoff = exponentialBackoff({ initial: 100, max: 30_000 }),
    logger: given,
    ...unknown
  } = options
  rejectUnknownOptions('A stream source', unknown)
  checkName('stream', stream)
  checkName('group', group)
  if (shards !== undefined) checkCount('shards', shards)
  checkChoice('order', order, ['none', 'perKey'])
  checkChoice('from', from, ['oldest', 'newest'])
  checkCount('prefetch', prefetch)
  checkCount('maxDeliveries', maxDeliveries, { infinite: true })
  checkFunction('read', read)
  checkDuration('block', block, { min: 1 })
  checkDuration('claimIdle', claimIdle, { min: 1 })
  checkDuration('claimInterval', claimInterval, { min: 1 })
  checkDuration('lease', lease, { min: 1 })
  if (trimInterval !== undefined) checkDuration('trimInterval', trimInterval, { min: 1 })
  checkFunction('backoff', backoff)

  const internals = internalsOf(redis)
  const { port, runtime } = internals
  const streams = shardNames(stream, shards)
  const letters = deadLetterStreams(internals, streams, deadLetter)
  const elsewhere: ReceiverOptions['deadLetter'] =
    typeof deadLetter === 'object' ? deadLetter : deadLetter === 'discard' ? 'discard' : undefined
  if (given !== undefined) internals.ports.inheritPorts({ logger: given })
  const receive = createReceiver({ deadLetter: elsewhere, deadLetterTimeout, onUndeliverable, runtime, logger: given ?? internals.logger })
  const { logger } = receive
  const leaseKeys = streams.map((name) => companionKey(port.keyPrefix, name, `lease:${group}`))
  const membersKey = companionKey(port.keyPrefix, stream, `members:${group}`)

  const open: IterationSettings['open'] = (offer) => {
    const consumer = consumerName(runtime)
    const groups = streams.map(
      (name, index) => new StreamGroup(internals, { stream: name, group, consumer, deadLetter: letters[index] ?? '' }),
    )
    const settings: Omit<ShardSettings, 'group'> = {
      redis: internals,
      from: from === 'oldest' ? '0' : '$',
      // Redis accepts only whole milliseconds.
      block: Math.ceil(block),
      claimIdle: Math.ceil(claimIdle),
      claimInterval,
      backoff,
      logger,
      share: () => Math.max(1, Math.floor(prefetch / groups.length)),
      offer,
    }
    if (order === 'none') return new CompetingShards(groups.map((each) => new CompetingShard({ ...settings, group: each })))
    return new OwnedShards({
      ...settings,
      stream,
      shards: groups.map((each, index) => ({ group: each, leaseKey: leaseKeys[index] ?? '' })),
      members: new ShardMembers(port, membersKey, consumer),
      lease: Math.ceil(lease),
      prefetch,
      keyOf: keyReader(read),
    })
  }
  const trim = trimInterval === undefined ? undefined : { interval: trimInterval, run: () => trimStream(redis, { stream, shards }) }
  const letterStreams = elsewhere === undefined ? new Map(streams.map((name, index) => [name, letters[index]])) : undefined
  const settings = { runtime, logger, group, read, maxDeliveries, receive, letterStreams, trim, open }
  const address: BrokerAddress = {
    system: 'redis',
    get serverAddress() {
      return port.server().serverAddress
    },
    get serverPort() {
      return port.server().serverPort
    },
  }
  return new IteratedSource((signal, owner) => new StreamIteration(settings, signal, owner), receive, address)
}

/** One per stream. Scripts need the key also where rejected messages go elsewhere. */
function deadLetterStreams(
  { port }: RedisInternals,
  streams: readonly string[],
  deadLetter: StreamSourceOptions['deadLetter'],
): readonly string[] {
  if (typeof deadLetter !== 'string' || deadLetter === 'discard') return streams.map((name) => companionKey(port.keyPrefix, name, 'dead'))
  checkName('deadLetter', deadLetter)
  if (port.cluster) for (const name of streams) checkSameSlot('deadLetter', port.keyPrefix, name, deadLetter)
  return streams.map(() => deadLetter)
}

/** Entries that cannot be read have no key; they are rejected when their turn comes. */
function keyReader(read: (entry: StreamEntry) => StreamContent): (entry: StreamEntry) => string | undefined {
  return (entry) => {
    try {
      const key = read(entry).attributes.partitionkey
      return typeof key === 'string' ? key : undefined
    } catch {
      return undefined
    }
  }
}
