import { setMaxListeners } from 'node:events'
import { type Attributes, Message, type Publisher, publishAll, type RawMessage, type Source } from '@ackord/core'
import { type RecordingLogger, recordingLogger } from '@ackord/testkit'
import { type JetStreamManager, jetstreamManager, type StreamConfig } from '@nats-io/jetstream'
import { type ConnectionOptions, connect, type NatsConnection } from '@nats-io/transport-node'
import { ownName } from '../../../../scripts/test-run.mjs'
import { type NatsPublisherOptions, type NatsSourceOptions, natsPublisher, natsSource } from '../../src/index.ts'

export const natsUrl: string = process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222'

export interface World extends AsyncDisposable {
  /** The connection under test. */
  readonly connection: NatsConnection
  /** A separate connection, to observe the server. */
  readonly admin: NatsConnection
  readonly manager: JetStreamManager
  readonly logger: RecordingLogger
  /** A new stream, deleted at the end, with the subjects `name` and `name.>`. */
  stream(config?: Partial<StreamConfig>): Promise<string>
  /** A unique name; a stream of that name is deleted at the end. */
  name(): string
  /** A source that creates its own consumer. */
  source(stream: string, options?: Partial<NatsSourceOptions>, on?: NatsConnection): Source & AsyncDisposable
  publisher(options?: NatsPublisherOptions): Publisher & AsyncDisposable
  /** Publishes one message per id, through a publisher that is independent of the test. */
  fill(subject: string, ids: readonly string[]): Promise<void>
  /** Another connection to the same server, closed at the end. */
  another(options?: Partial<ConnectionOptions>): Promise<NatsConnection>
}

export interface WorldOptions {
  /** The URL of the connection under test. Default: the same server as the admin's. */
  readonly url?: string
  /** The server. Default: the shared one. */
  readonly server?: string
}

const patient = { maxReconnectAttempts: -1, reconnectTimeWait: 50, reconnectJitter: 0 }

export async function openWorld(options: WorldOptions = {}): Promise<World> {
  const { server = natsUrl, url = server } = options
  const admin = await connect({ servers: server, ...patient })
  const connections = [await connect({ servers: url, ...patient })]
  const [connection] = connections as [NatsConnection]
  const manager = await jetstreamManager(admin)
  const filler = natsPublisher(admin)
  const logger = recordingLogger()
  const names: string[] = []
  const opened: AsyncDisposable[] = []
  const name = () => {
    const made = `ackord-test-${ownName()}`
    names.push(made)
    return made
  }
  return {
    connection,
    admin,
    manager,
    logger,
    name,
    async stream(config = {}) {
      const stream = name()
      await manager.streams.add({ name: stream, subjects: [stream, `${stream}.>`], ...config })
      return stream
    },
    source(stream, more = {}, on = connection) {
      const source = natsSource(on, { stream, consumer: 'billing', declare: {}, logger, backoff: () => 5, ...more })
      opened.push(source)
      return source
    },
    publisher(more = {}) {
      const publisher = natsPublisher(connection, more)
      opened.push(publisher)
      return publisher
    },
    fill: (subject, ids) =>
      publishAll(
        filler,
        subject,
        ids.map((id) => event(id)),
      ),
    async another(more = {}) {
      const other = await connect({ servers: url, ...patient, ...more })
      connections.push(other)
      return other
    },
    async [Symbol.asyncDispose]() {
      for (const each of opened) await each[Symbol.asyncDispose]()
      for (const made of names) await manager.streams.delete(made).catch(() => false)
      for (const each of [...connections, admin]) await each.close()
    },
  }
}

export function event(id: string, attributes: Attributes = {}): RawMessage {
  const data = new TextEncoder().encode(JSON.stringify({ id }))
  return new Message(data, { id, type: 'test.event', source: '/test', specversion: '1.0', ...attributes })
}

export function numbered(count: number, prefix = 'm'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`)
}

/** Polls until the condition holds, for at most 20 seconds. Each check is a round trip to the server, or a turn of the event loop. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const limit = AbortSignal.timeout(20_000)
  while (!(await isSo())) {
    limit.throwIfAborted()
    await new Promise((resolve) => setImmediate(resolve))
  }
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

/** A signal that is never aborted; many concurrent calls may use it. */
export const never: AbortSignal = new AbortController().signal
setMaxListeners(0, never)
