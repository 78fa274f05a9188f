import { setMaxListeners } from 'node:events'
import { Message, type Publisher, publishAll, type RawMessage, type Source } from '@ackord/core'
import { type RecordingLogger, recordingLogger } from '@ackord/testkit'
import { type Channel, connect, type Message as NativeMessage, type RecoveringChannelModel } from 'amqplib'
import { ownName } from '../../../../scripts/test-run.mjs'
import {
  type RabbitmqConnection,
  type RabbitmqPublisherOptions,
  type RabbitmqSourceOptions,
  rabbitmqPublisher,
  rabbitmqSource,
} from '../../src/index.ts'

export const rabbitmqUrl: string = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'

export interface World extends AsyncDisposable {
  /** The connection under test. */
  readonly connection: RecoveringChannelModel
  /** A channel on a separate connection, to observe the server. */
  readonly admin: Channel
  readonly logger: RecordingLogger
  /** A new queue, deleted at the end. */
  queue(options?: { readonly type?: 'classic' | 'quorum'; readonly arguments?: Record<string, unknown> }): Promise<string>
  /** A unique name; a queue or exchange of that name is deleted at the end. */
  name(): string
  source(queue: string, options?: Partial<RabbitmqSourceOptions>): Source & AsyncDisposable
  publisher(options?: RabbitmqPublisherOptions): Publisher & AsyncDisposable
  /** Publishes one message per id, through a publisher that is independent of the test. */
  fill(queue: string, ids: readonly string[]): Promise<void>
  /** The number of open channels of the connection. */
  openChannels(): number
  /** Makes the server close the channels, by acknowledging a delivery that never happened. */
  breakChannels(): void
  /** The number of messages that wait in the queue, without those that a consumer holds. */
  ready(queue: string): Promise<number>
}

export interface WorldOptions {
  /** The URL of the connection under test. Default: the same server as the admin's. */
  readonly url?: string
  /** The server. Default: the shared one. */
  readonly server?: string
}

export async function openWorld(options: WorldOptions = {}): Promise<World> {
  const { server = rabbitmqUrl, url = server } = options
  // Recovers as well, because tests may restart the server.
  const door = await connect(server, { recovery: { initialDelay: 10, maxDelay: 200 } })
  door.on('error', () => {})
  const fillers = rabbitmqPublisher(door, { logger: recordingLogger() })
  const connection = await connect(url, { recovery: { initialDelay: 10, maxDelay: 200 } })
  // A listener from the start, because a test may cut the connection before any code under test listens.
  connection.on('error', () => {})
  const logger = recordingLogger()
  const channels = trackChannels(connection)
  const names: string[] = []
  const opened: AsyncDisposable[] = []
  const admin = await door.createChannel()
  const name = () => {
    const made = `ackord-test-${ownName()}`
    names.push(made)
    return made
  }

  return {
    connection,
    admin,
    logger,
    name,
    async queue({ type = 'classic', arguments: more = {} } = {}) {
      const queue = name()
      await admin.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': type, ...more } })
      return queue
    },
    source(queue, more = {}) {
      const source = rabbitmqSource(connection, { queue, logger, ...more })
      opened.push(source)
      return source
    },
    publisher(more = {}) {
      const publisher = rabbitmqPublisher(connection, { logger, ...more })
      opened.push(publisher)
      return publisher
    },
    fill: (queue, ids) => publishAll(fillers, queue, ids.map(event)),
    openChannels: () => channels.size,
    breakChannels() {
      for (const channel of channels) channel.ack(neverDelivered)
    },
    ready: async (queue) => (await admin.checkQueue(queue)).messageCount,
    async [Symbol.asyncDispose]() {
      for (const each of opened) await each[Symbol.asyncDispose]()
      await connection.close()
      const cleaning = await door.createChannel()
      for (const made of names) {
        await cleaning.deleteQueue(made)
        await cleaning.deleteExchange(made)
        // Created by sources that use retry queues.
        await cleaning.deleteExchange(`${made}.ackord.retry`)
        for (const level of ['1s', '10s', '1m', 'long']) await cleaning.deleteQueue(`${made}.ackord.retry.${level}`)
      }
      await fillers[Symbol.asyncDispose]()
      await door.close()
    },
  }
}

export function event(id: string): RawMessage {
  return new Message(new TextEncoder().encode(JSON.stringify({ id })), { id, type: 'test.event', source: '/test', specversion: '1.0' })
}

export function events(count: number, prefix = 'm'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`)
}

/** Polls until the condition holds. Each check is a round trip to the server, or a turn of the event loop. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setImmediate(resolve))
}

export function open(source: Source, signal: AbortSignal = new AbortController().signal): AsyncIterator<RawMessage> {
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

/** A signal that is never aborted; many concurrent calls may use it. */
export const never: AbortSignal = new AbortController().signal
setMaxListeners(0, never)

const neverDelivered = {
  content: Buffer.alloc(0),
  fields: { deliveryTag: 1_000_000, redelivered: false, exchange: '', routingKey: '' },
} as NativeMessage

/** The open channels of the connection. */
function trackChannels(connection: RabbitmqConnection): Set<Channel> {
  const channels = new Set<Channel>()
  for (const method of ['createChannel', 'createConfirmChannel'] as const) {
    const create = connection[method].bind(connection) as () => Promise<Channel>
    Object.assign(connection, {
      [method]: async () => {
        const channel = await create()
        channels.add(channel)
        channel.on('close', () => channels.delete(channel))
        return channel
      },
    })
  }
  return channels
}
