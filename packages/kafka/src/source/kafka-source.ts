import {
  type Attributes,
  type Backoff,
  consoleLogger,
  exponentialBackoff,
  InvalidOptionError,
  type Source,
  systemRuntime,
} from '@ackord/core'
import { createReceiver, createSource, type ReceiverOptions } from '@ackord/core/broker'
import { checkChoice, checkCount, checkDuration, checkFunction, checkName, checkNoMore, guardLogger } from '@ackord/core/internal'
import type { KafkaMessage, KafkaPort } from '../port.ts'
import { Subscription } from './subscription.ts'

export interface KafkaSourceOptions extends ReceiverOptions {
  /** The topics to read. */
  readonly topics: readonly string[]
  /** The consumer group. Its members share the partitions, and what it has committed is where it reads on. */
  readonly group: string
  /** Where a group starts that has committed nothing. Default: 'oldest'. */
  readonly from?: 'oldest' | 'newest' | undefined
  /**
   * How many messages of a partition an iteration may hold that are not settled; then the partition is paused. One that is nacked
   * again and again holds up its partition once so many have come behind it. Default: 500.
   */
  readonly prefetch?: number | undefined
  /**
   * The attributes of a message, from what Kafka delivered. What it throws rejects the message. Default: CloudEvents as the message has them, in binary or
   * structured mode; for others `topic/partition/offset` is the id, the topic type and source, the key the `partitionkey`, the timestamp the time.
   */
  readonly attributes?: ((native: KafkaMessage) => Attributes) | undefined
  /** Milliseconds from an ack to the commit of its offset; what is acked meanwhile is committed with it. A crash repeats what was not committed. Default: 100. */
  readonly commitInterval?: number | undefined
  /** The longest delay of a nack in milliseconds; longer ones are cut. Default: 600,000. */
  readonly maxDelay?: number | undefined
  /** The pause before a lost consumer is made anew. Default: 100 ms × 2ⁿ up to 30 s, ± 20 %. */
  readonly backoff?: Backoff | undefined
}

/**
 * The messages of topics, as a member of a consumer group. Each iteration is a member of its own. Offsets are committed up to the lowest message that is not settled, and
 * no further. Messages with one key come in their order, one at a time, through nacks too.
 *
 * When a partition goes to another member, its messages in hand can be settled no more: that rejects with `ACKORD_LEASE_LOST`, and they are delivered there. An ack resolves
 * when it is noted, and is committed a little later. `deliveryCount` counts in this process only.
 */
export function kafkaSource(kafka: KafkaPort, options: KafkaSourceOptions): Source & AsyncDisposable {
  const {
    topics,
    group,
    from = 'oldest',
    prefetch = 500,
    attributes,
    commitInterval = 100,
    maxDelay = 600_000,
    backoff = exponentialBackoff({ initial: 100, max: 30_000 }),
    deadLetter,
    deadLetterTimeout,
    onUndeliverable,
    runtime = systemRuntime,
    logger: given = consoleLogger,
    ...unknown
  } = options
  checkNoMore('A Kafka source', unknown)
  checkFunction('kafka.consumer', kafka?.consumer)
  if (!Array.isArray(topics) || topics.length === 0) throw new InvalidOptionError('topics', 'must be a list of names that is not empty.')
  for (const topic of topics) checkName('topics', topic)
  checkName('group', group)
  checkChoice('from', from, ['oldest', 'newest'])
  checkCount('prefetch', prefetch)
  if (attributes !== undefined) checkFunction('attributes', attributes)
  checkDuration('commitInterval', commitInterval)
  checkDuration('maxDelay', maxDelay)
  checkFunction('backoff', backoff)
  const logger = guardLogger(given)
  const receive = createReceiver({ deadLetter, deadLetterTimeout, onUndeliverable, runtime, logger })
  const settings = { kafka, topics, group, from, prefetch, attributes, commitInterval, maxDelay, backoff, runtime, logger, receive }
  return createSource(() => new Subscription(settings))
}
