import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { Socket } from 'node:net'
import { type Attributes, Message, type Publisher, publishAll, type RawMessage, type Source } from '@ackord/core'
import { type RecordingLogger, recordingLogger } from '@ackord/testkit'
import type { Admin, Kafka } from 'kafkajs'
import {
  fromKafkaJs,
  type KafkaPort,
  type KafkaPublisherOptions,
  type KafkaSourceOptions,
  kafkaPublisher,
  kafkaSource,
} from '../../src/index.ts'
import { createClient, createTopics, deleteTopics, isReal, kafkaUrl } from './connection.ts'

export interface World extends AsyncDisposable {
  readonly kafka: KafkaPort
  readonly client: Kafka
  readonly admin: Admin
  readonly logger: RecordingLogger
  /** A new topic, with four partitions. */
  topic(): Promise<string>
  group(): string
  source(topic: string, group: string, options?: Partial<KafkaSourceOptions>): Source & AsyncDisposable
  publisher(options?: KafkaPublisherOptions): Publisher & AsyncDisposable
  /** Publishes events, through a publisher that is independent of the test. */
  fill(topic: string, messages: readonly RawMessage[]): Promise<void>
  /** Cuts the connections of sources and publishers. Returns their number. */
  cut(): number
  /** The number of records in the topic. */
  stored(topic: string): Promise<number>
  /** The committed offsets of the group, summed over the partitions. */
  committed(topic: string, group: string): Promise<number>
}

/** On the Kafka of the environment, or on a real broker that the test has started. */
export async function openWorld(started?: { readonly url: string }): Promise<World> {
  const url = started?.url ?? kafkaUrl
  const options = { isReal: started !== undefined || isReal }
  const sockets = new Set<Socket>()
  const client = createClient(url, {}, sockets)
  const others = createClient(url)
  const admin = others.admin()
  await admin.connect()
  const kafka = fromKafkaJs(client, {
    consumer: { sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 100, rebalanceTimeout: 6000 },
  })
  const fillers = kafkaPublisher(fromKafkaJs(others))
  const logger = recordingLogger()
  const opened: AsyncDisposable[] = []
  const topics: string[] = []
  return {
    kafka,
    client,
    admin,
    logger,
    async topic() {
      const topic = `ackord-test-${randomUUID()}`
      await createTopics(admin, [topic], options)
      topics.push(topic)
      return topic
    },
    group: () => `ackord-test-${randomUUID()}`,
    source(topic, group, more = {}) {
      const source = kafkaSource(kafka, { topics: [topic], group, logger, backoff: () => 20, commitInterval: 10, ...more })
      opened.push(source)
      return source
    },
    publisher(more = {}) {
      const publisher = kafkaPublisher(kafka, more)
      opened.push(publisher)
      return publisher
    },
    fill: (topic, messages) => publishAll(fillers, topic, messages),
    cut() {
      const { size } = sockets
      for (const socket of [...sockets]) socket.destroy(new Error('cut by the test'))
      return size
    },
    async stored(topic) {
      const ends = await admin.fetchTopicOffsets(topic)
      return ends.reduce((sum, { high, low }) => sum + Number(high) - Number(low), 0)
    },
    async committed(topic, group) {
      const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
      return (found?.partitions ?? []).reduce((sum, { offset }) => sum + Math.max(0, Number(offset)), 0)
    },
    async [Symbol.asyncDispose]() {
      for (const each of opened) await each[Symbol.asyncDispose]()
      await fillers[Symbol.asyncDispose]()
      await deleteTopics(admin, topics, options)
      await admin.disconnect()
    },
  }
}

export function event(id: string, more: Attributes = {}): RawMessage {
  const attributes = { id, type: 'test.event', source: '/test', specversion: '1.0', ...more }
  return new Message(new TextEncoder().encode(JSON.stringify({ id })), attributes)
}

export function events(count: number, prefix = 'm'): RawMessage[] {
  return Array.from({ length: count }, (_, index) => event(`${prefix}${index}`))
}

export function open(source: Source, signal: AbortSignal = never): AsyncIterator<RawMessage> {
  return source.messages({ signal })[Symbol.asyncIterator]()
}

export async function pull(messages: AsyncIterator<RawMessage>): Promise<RawMessage> {
  const { value, done } = await messages.next()
  if (done === true) throw new Error('The iteration has ended.')
  return value
}

export async function pullMany(messages: AsyncIterator<RawMessage>, count: number): Promise<RawMessage[]> {
  const pulled: RawMessage[] = []
  while (pulled.length < count) pulled.push(await pull(messages))
  return pulled
}

/** Polls until the condition holds, for at most half a minute. Each check is a round trip to the server, or a turn of the event loop. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 30_000
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error('condition not met within half a minute')
    await new Promise((resolve) => setImmediate(resolve))
  }
}

export const never: AbortSignal = new AbortController().signal
setMaxListeners(0, never)
