import { setMaxListeners } from 'node:events'
import { type Attributes, Message, type Publisher, publishAll, type RawMessage, type Source } from '@ackord/core'
import { type RecordingLogger, recordingLogger } from '@ackord/testkit'
import { type Channel, connect as connectLegacy } from 'amqplib'
import rhea, { type Connection, type ConnectionOptions } from 'rhea'
import { ownName } from '../../../../scripts/test-run.mjs'
import { type AmqpPublisherOptions, type AmqpSourceOptions, amqpPublisher, amqpSource } from '../../src/index.ts'

/** RabbitMQ 4. Only `make test-matrix` and `make proof` start it: `scripts/services run --only redis,rabbitmq4 -- …`. */
export const amqpUrl: string = process.env['AMQP_URL'] ?? 'amqp://guest:guest@127.0.0.1:1'

export interface World extends AsyncDisposable {
  /** The connection under test. */
  readonly connection: Connection
  /** AMQP 0-9-1, to create queues and to observe the server. */
  readonly admin: Channel
  readonly logger: RecordingLogger
  /** A new queue, deleted at the end. */
  queue(options?: { readonly type?: 'classic' | 'quorum'; readonly arguments?: Record<string, unknown> }): Promise<string>
  /** A unique name; a queue or exchange of that name is deleted at the end. */
  name(): string
  source(address: string, options?: Partial<AmqpSourceOptions>, on?: Connection): Source & AsyncDisposable
  publisher(options?: AmqpPublisherOptions, on?: Connection): Publisher & AsyncDisposable
  /** Publishes one message per id, through a publisher that is independent of the test. */
  fill(address: string, ids: readonly string[]): Promise<void>
  /** Another connection to the same server, closed at the end. */
  another(options?: Partial<ConnectionOptions>): Connection
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
  const { server = amqpUrl, url = server } = options
  // Recovers as well, because tests may restart the server.
  const door = await connectLegacy(server, { recovery: { initialDelay: 10, maxDelay: 200 } })
  door.on('error', () => {})
  const admin = await door.createChannel()
  const filling = open(server)
  const filler = amqpPublisher(filling, { logger: recordingLogger() })
  const connections = [open(url)]
  const [connection] = connections as [Connection]
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
    logger,
    name,
    async queue({ type = 'quorum', arguments: more = {} } = {}) {
      const queue = name()
      await admin.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': type, ...more } })
      return queue
    },
    source(address, more = {}, on = connection) {
      const source = amqpSource(on, { address, logger, backoff: () => 5, ...more })
      opened.push(source)
      return source
    },
    publisher(more = {}, on = connection) {
      const publisher = amqpPublisher(on, { logger, ...more })
      opened.push(publisher)
      return publisher
    },
    fill: (address, ids) =>
      publishAll(
        filler,
        address,
        ids.map((id) => event(id)),
      ),
    another(more = {}) {
      const other = open(url, more)
      connections.push(other)
      return other
    },
    ready: async (queue) => (await admin.checkQueue(queue)).messageCount,
    async [Symbol.asyncDispose]() {
      for (const each of opened) await each[Symbol.asyncDispose]()
      await filler[Symbol.asyncDispose]()
      for (const each of [...connections, filling]) await closeConnection(each)
      const cleaning = await door.createChannel()
      for (const made of names) {
        await cleaning.deleteQueue(made)
        await cleaning.deleteExchange(made)
      }
      await door.close()
    },
  }
}

/** The version of the server, which decides what its queues can do. */
export async function serverVersion(url: string = amqpUrl): Promise<readonly [major: number, minor: number]> {
  const connection = open(url)
  try {
    await new Promise<void>((resolve, reject) => {
      connection.once('connection_open', () => resolve())
      for (const event of ['connection_error', 'disconnected']) connection.once(event, ({ error }) => reject(error))
    })
    const [major = 0, minor = 0] = String(connection.properties?.['version']).split('.').map(Number)
    return [major, minor]
  } finally {
    await closeConnection(connection)
  }
}

/** A connection that connects again by itself, quickly. */
export function open(url: string, more: Partial<ConnectionOptions> = {}): Connection {
  const { hostname, port, username, password } = new URL(url)
  const options = {
    host: hostname,
    port: Number(port),
    username: decodeURIComponent(username),
    password: decodeURIComponent(password),
    initial_reconnect_delay: 10,
    max_reconnect_delay: 200,
    // RabbitMQ 4.0 shuts down with an error that rhea would not connect again after.
    all_errors_non_fatal: true,
    ...more,
  }
  const connection = rhea.create_container().connect(options as ConnectionOptions)
  // Without a listener rhea prints it.
  connection.on('disconnected', () => {})
  return connection
}

/** Resolves when the broker has answered, or the socket is closed. */
export async function closeConnection(connection: Connection): Promise<void> {
  connection['set_reconnect'](false)
  if (!connection.is_open()) {
    connection['scheduled_reconnect'] === undefined || clearTimeout(connection['scheduled_reconnect'])
    connection['socket']?.destroy()
    return
  }
  const closed = new Promise<void>((resolve) => {
    connection['socket'].once('close', () => resolve())
  })
  connection.close()
  await closed
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

export function read(source: Source, signal: AbortSignal = never): AsyncIterator<RawMessage> {
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
