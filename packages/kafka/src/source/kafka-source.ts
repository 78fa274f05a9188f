import {
  type Attributes,
  type Backoff,
  type Closable,
  exponentialBackoff,
  InvalidOptionError,
  type Source,
  systemRuntime,
} from '@ackord/core'
import { createReceiver, createSource, type ReceiverOptions } from '@ackord/core/broker'
import { checkChoice, checkCount, checkDuration, checkFunction, checkName, rejectUnknownOptions } from '@ackord/core/internal'
import type { KafkaMessage, KafkaPort } from '../port.ts'
import { Subscription } from './subscription.ts'

export interface KafkaSourceOptions extends ReceiverOptions {
  /** The topics to read. */
  readonly topics: readonly string[]
  /** The consumer group. Its members share the partitions, and it continues after its committed offsets. */
  readonly group: string
  /** Where a group starts that has no committed offset. Default: 'oldest'. */
  readonly from?: 'oldest' | 'newest' | undefined
  /**
   * The most unsettled messages that an iteration holds per partition; then the partition is paused. A message that is nacked
   * again and again stops its partition when so many have arrived behind it. Default: 500.
   */
  readonly prefetch?: number | undefined
  /**
   * Returns the attributes of a message that Kafka has delivered. If it throws, the message is rejected. Default: the attributes of a CloudEvent in binary or
   * structured mode; for other messages `topic/partition/offset` is the id, the topic is type and source, the key is the `partitionkey`, the timestamp is the time.
   */
  readonly attributes?: ((native: KafkaMessage) => Attributes) | undefined
  /** Milliseconds from an ack to the commit of its offset, together with the acks in between. After a crash, messages that were not committed are delivered again. Default: 100. */
  readonly commitInterval?: number | undefined
  /** The longest delay of a nack in milliseconds; longer delays are shortened to it. Default: 600,000. */
  readonly maxDelay?: number | undefined
  /** The pause before a lost consumer is replaced. Default: 100 ms × 2ⁿ up to 30 s, ± 20 %. */
  readonly backoff?: Backoff | undefined
}

/**
 * The messages of topics, as a member of a consumer group. Each iteration is a member of its own. Offsets are committed up to the lowest unsettled message, and
 * no further. Messages with the same key come in their order, one at a time, also after nacks.
 *
 * When a partition is assigned to another member, messages that are being handled cannot be settled any more: that rejects with `ACKORD_LEASE_LOST`, and they are delivered to the other member. An ack resolves
 * at once, and is committed after `commitInterval`. `deliveryCount` counts in this process only.
 */
export function kafkaSource(kafka: KafkaPort, options: KafkaSourceOptions): Source & Closable {
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
    logger,
    ...unknown
  } = options
  rejectUnknownOptions('A Kafka source', unknown)
  checkFunction('kafka.consumer', kafka?.consumer)
  if (!Array.isArray(topics) || topics.length === 0) throw new InvalidOptionError('topics', 'must be a non-empty list of names.')
  for (const topic of topics) checkName('topics', topic)
  checkName('group', group)
  checkChoice('from', from, ['oldest', 'newest'])
  checkCount('prefetch', prefetch)
  if (attributes !== undefined) checkFunction('attributes', attributes)
  checkDuration('commitInterval', commitInterval)
  checkDuration('maxDelay', maxDelay)
  checkFunction('backoff', backoff)
  const receive = createReceiver({ deadLetter, deadLetterTimeout, onUndeliverable, runtime, logger })
  const limits = { prefetch, commitInterval, maxDelay, backoff }
  const settings = { kafka, topics, group, from, attributes, ...limits, runtime, logger: receive.logger, receive }
  return createSource(() => new Subscription(settings), receive)
}
