import { AckordError, idle, type Logger, Message, type Publisher, systemRuntime } from '@ackord/core'
import {
  type DeadLetterQueue,
  type DeadLetters,
  type DeadLettersOptions,
  deadLetterPort,
  PartPorts,
  type StoredLetter,
} from '@ackord/core/broker'
import { checkName, rejectUnknownOptions } from '@ackord/core/internal'
import type { KafkaConsumer, KafkaMessage, KafkaPort } from './port.ts'
import { kafkaPublisher } from './publisher/kafka-publisher.ts'
import { readRecord } from './source/read-record.ts'

/** The part of an `Admin` of kafkajs that is used. It is connected. */
export interface KafkaAdmin {
  listTopics(): Promise<readonly string[]>
  fetchTopicOffsets(topic: string): Promise<readonly { readonly partition: number; readonly low: string; readonly high: string }[]>
  fetchOffsets(options: {
    groupId: string
    topics: string[]
  }): Promise<readonly { readonly partitions: readonly { readonly partition: number; readonly offset: string }[] }[]>
}

export interface KafkaDeadLettersOptions extends DeadLettersOptions {
  /** The consumer group whose committed offsets mark the letters that are done. `ackord dead-letters` and the dashboard must use the same. Default: `ackord-dead-letters`. */
  readonly group?: string | undefined
}

/** Milliseconds without a record after which no more are expected: the last offsets of a topic may belong to markers that no consumer gets. */
const idleLimit = 15_000
/** Records that wait to be read. */
const maxWaiting = 500

/**
 * The dead letters of a topic, for the dashboard. Kafka deletes no single record. The committed offset of a group marks the letters that are done: it passes those that were removed, up to the first one of
 * a partition that was not. Reading commits nothing.
 */
export function kafkaDeadLetters(kafka: KafkaPort, admin: KafkaAdmin, topic: string, options: KafkaDeadLettersOptions = {}): DeadLetters {
  const { publisher, group = 'ackord-dead-letters', logger: givenLogger, ...unknown } = options
  rejectUnknownOptions('kafkaDeadLetters()', unknown)
  checkName('topic', topic)
  checkName('group', group)
  const { logger } = new PartPorts({ logger: givenLogger })
  return deadLetterPort({ open: () => openTopic(kafka, admin, topic, { publisher, group, logger }), logger })
}

interface TopicSettings {
  readonly publisher: Publisher | undefined
  readonly group: string
  readonly logger: Logger
}

async function openTopic(
  kafka: KafkaPort,
  admin: KafkaAdmin,
  topic: string,
  { publisher: givenPublisher, group, logger }: TopicSettings,
): Promise<DeadLetterQueue> {
  const partitions = await openPartitions(admin, topic, group)
  const count = [...partitions.values()].reduce((sum, { from, to }) => sum + Math.max(0, to - from), 0)
  const publisher = givenPublisher ?? kafkaPublisher(kafka)
  const waiting: KafkaMessage[] = []
  let wake: () => void = () => {}
  let failure: unknown
  let consumer: KafkaConsumer | undefined

  async function start(): Promise<void> {
    consumer = kafka.consumer(
      { group, topics: [topic], from: 'oldest' },
      {
        assigned() {},
        revoking() {},
        confirmed() {},
        fetched(partition, messages) {
          const accepted = waiting.length >= maxWaiting ? 0 : messages.length
          waiting.push(...messages.slice(0, accepted))
          if (waiting.length >= maxWaiting) consumer?.pause(partition)
          wake()
          return accepted
        },
        crashed(error) {
          failure = error
          wake()
        },
      },
    )
    await consumer.start()
  }

  /** Resolves to `false` if no record came within the limit. */
  async function more(signal: AbortSignal): Promise<boolean> {
    for (const partition of partitions.keys()) consumer?.resume({ topic, partition })
    const alarm = new AbortController()
    wake = () => alarm.abort()
    if (waiting.length === 0 && failure === undefined) await idle(systemRuntime, idleLimit, AbortSignal.any([signal, alarm.signal]))
    if (failure !== undefined) throw failure
    return waiting.length > 0
  }

  return {
    count,
    publisher,
    get undeletable() {
      return [...partitions.values()].reduce((sum, { read }) => sum + [...read.values()].filter((removed) => removed).length, 0)
    },
    async *letters(signal) {
      if (count === 0) return
      await start()
      while (!signal.aborted && [...partitions.values()].some(({ next, to }) => next < to)) {
        if (waiting.length === 0 && !(await more(signal))) {
          if (!signal.aborted) logger.warn({ topic, group }, incomplete(topic, group, partitions))
          return
        }
        const native = waiting.shift()
        const partition = native === undefined ? undefined : partitions.get(native.partition)
        if (native === undefined || partition === undefined) continue
        const offset = Number(native.offset)
        // After a rebalance the consumer begins at the committed offset again.
        if (offset < partition.next || offset >= partition.to) continue
        partition.next = offset + 1
        partition.read.set(offset, false)
        yield letterOf(native)
      }
    },
    async remove(letters) {
      const changed = new Map<number, number>()
      for (const { position } of letters) {
        const [number = 0, offset = 0] = position.split('/').map(Number)
        const read = partitions.get(number)?.read
        if (read?.has(offset) === true) read.set(offset, true)
        for (const [first, removed] of read ?? []) {
          if (!removed) break
          read?.delete(first)
          changed.set(number, first + 1)
        }
      }
      if (changed.size > 0) await consumer?.commit(Array.from(changed, ([partition, next]) => ({ topic, partition, offset: String(next) })))
    },
    async [Symbol.asyncDispose]() {
      if (givenPublisher === undefined) await publisher[Symbol.asyncDispose]?.()
      await consumer?.close().catch(() => {})
    },
  }
}

interface OpenPartition {
  /** The first offset that the group has not committed. */
  readonly from: number
  /** The first offset that did not exist at the start. */
  readonly to: number
  /** The next offset to be read. */
  next: number
  /** The offsets that were read, in order, from the first one on that is not done, and whether each was removed. */
  readonly read: Map<number, boolean>
}

async function openPartitions(admin: KafkaAdmin, topic: string, group: string): Promise<ReadonlyMap<number, OpenPartition>> {
  if (!(await admin.listTopics()).includes(topic)) {
    throw new AckordError('ACKORD_SOURCE_FAILED', `There is no topic '${topic}'.`)
  }
  const offsets = await admin.fetchTopicOffsets(topic)
  const [own] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
  const committed = new Map(own?.partitions.map(({ partition, offset }) => [partition, Number(offset)]))
  return new Map(
    offsets.map(({ partition, low, high }) => {
      const from = Math.max(Number(low), committed.get(partition) ?? 0)
      return [partition, { from, to: Number(high), next: from, read: new Map() }]
    }),
  )
}

function incomplete(topic: string, group: string, partitions: ReadonlyMap<number, OpenPartition>): string {
  const unread = Array.from(partitions.values(), ({ next, to }) => Math.max(0, to - next)).reduce((sum, each) => sum + each, 0)
  return `${unread} offsets of '${topic}' were not read: they are markers of transactions, or another process has their partitions in the group '${group}'. Run one command at a time, or use another --group.`
}

function letterOf(native: KafkaMessage): StoredLetter {
  const position = `${native.partition}/${native.offset}`
  try {
    const { data, attributes } = readRecord(native)
    return { position, message: new Message(data, attributes) }
  } catch (error) {
    return { position, message: new Message(new Uint8Array(native.value ?? [])), problem: String(error) }
  }
}
