import {
  AckordError,
  type Closable,
  InvalidOptionError,
  type Logger,
  outside,
  type Publisher,
  type PublishFailure,
  type RawMessage,
  type Runtime,
  systemRuntime,
} from '@ackord/core'
import { createPublisher, destinationFailure, type Outgoing, type PublisherDriver, type SendOptions } from '@ackord/core/broker'
import {
  abortable,
  answerTimeout,
  checkChoice,
  checkDuration,
  checkFunction,
  groupBy,
  linkedController,
  PartPorts,
  rejectUnknownOptions,
  settledWithin,
} from '@ackord/core/internal'
import type { RabbitmqConnection } from '../client.ts'
import { isOver, recordServer, serverOfConnection, watchConnection } from '../connection-watch.ts'
import { PublishChannel } from './publish-channel.ts'
import type { Envelope } from './publish-failures.ts'
import { writeBinary, writeStructured } from './write-message.ts'

/** Where a message is published. The exchange `''` is the default exchange, which routes to the queue named by the routing key. */
export interface RabbitmqRoute {
  readonly exchange: string
  readonly routingKey: string
}

export interface RabbitmqPublisherOptions {
  /** Where a message to this destination goes. Default: to the queue of that name. */
  readonly route?: ((destination: string, message: RawMessage) => RabbitmqRoute) | undefined
  /**
   * Whether a message that reaches no queue is a failure. If not, RabbitMQ confirms and drops it: for events that need no receiver.
   * Default: true.
   */
  readonly mandatory?: boolean | undefined
  /**
   * The fault that is reported when a message reaches no queue. `destination`: a relay pauses the destination and counts no attempts.
   * `record`: it tries the message again and parks it in the end, and the others go on. Default: 'destination', and 'record' with a `route`,
   * where one message with an unknown routing key must not stop the rest.
   */
  readonly unroutable?: 'destination' | 'record' | undefined
  /** Whether messages survive a restart of RabbitMQ in a durable queue. Default: true. */
  readonly persistent?: boolean | undefined
  /**
   * How a message is written. `binary`: its bytes are the body, its attributes are headers. `structured`: attributes and data are one JSON text, for consumers
   * that do not read headers. Sources read both. Default: 'binary'.
   */
  readonly mode?: 'binary' | 'structured' | undefined
  /** Milliseconds that `publish()` waits for a connection that is being restored; then the destination is at fault. Default: 5,000. */
  readonly connectTimeout?: number | undefined
  readonly runtime?: Runtime | undefined
  /** Logs failures of the connection. Default: that of the relay or router that uses the publisher; until then the console, from `info` up. */
  readonly logger?: Logger | undefined
}

/**
 * Publishes with confirms: a message that is `ok` is in a queue, and on disk if the queue is durable. The messages of a call are sent without waiting for each other's confirms;
 * their order holds per exchange. Open the connection with amqplib's `connect(url, { recovery: true })`, and do not share it with a
 * source: RabbitMQ slows down connections that publish too much, and acks would wait too.
 */
export function rabbitmqPublisher(connection: RabbitmqConnection, options: RabbitmqPublisherOptions = {}): Publisher & Closable {
  const {
    route = toQueue,
    mandatory = true,
    unroutable = options.route === undefined ? 'destination' : 'record',
    persistent = true,
    mode = 'binary',
    connectTimeout = 5000,
    runtime = systemRuntime,
    logger,
    ...unknown
  } = options
  rejectUnknownOptions('A RabbitMQ publisher', unknown)
  checkFunction('route', route)
  checkFlag('mandatory', mandatory)
  checkChoice('unroutable', unroutable, ['destination', 'record'])
  checkFlag('persistent', persistent)
  checkChoice('mode', mode, ['binary', 'structured'])
  checkDuration('connectTimeout', connectTimeout, { min: 1 })
  const { inheritPorts } = new PartPorts({ logger: watchConnection(connection, logger) })
  return createPublisher(
    new RabbitmqPublisherDriver(connection, { route, mandatory, unroutable, persistent, mode, connectTimeout, runtime, inheritPorts }),
  )
}

interface PublisherSettings {
  readonly route: (destination: string, message: RawMessage) => RabbitmqRoute
  readonly mandatory: boolean
  readonly unroutable: 'destination' | 'record'
  readonly persistent: boolean
  readonly mode: 'binary' | 'structured'
  readonly connectTimeout: number
  readonly runtime: Runtime
  readonly inheritPorts: PartPorts['inheritPorts']
}

class RabbitmqPublisherDriver implements PublisherDriver<Envelope, RabbitmqRoute> {
  readonly broker = 'RabbitMQ'
  readonly system = 'rabbitmq'
  readonly inheritPorts: PartPorts['inheritPorts']
  readonly runtime: Runtime
  readonly #connection: RabbitmqConnection
  readonly #settings: PublisherSettings
  // One per exchange: RabbitMQ closes the channel of a publish to a missing exchange, and messages to other exchanges must not fail with it.
  readonly #channels = new Map<string, Promise<PublishChannel>>()

  constructor(connection: RabbitmqConnection, settings: PublisherSettings) {
    this.#connection = connection
    this.#settings = settings
    this.runtime = settings.runtime
    this.inheritPorts = settings.inheritPorts
  }

  get serverAddress(): string | undefined {
    return serverOfConnection(this.#connection).serverAddress
  }

  get serverPort(): number | undefined {
    return serverOfConnection(this.#connection).serverPort
  }

  route(destination: string, message: RawMessage): RabbitmqRoute {
    return checkRoute(this.#settings.route(destination, message))
  }

  write(message: RawMessage, { exchange, routingKey }: RabbitmqRoute): Envelope {
    return { exchange, routingKey, ...(this.#settings.mode === 'binary' ? writeBinary(message) : writeStructured(message)) }
  }

  async send(messages: readonly Outgoing<Envelope>[], { signal }: SendOptions): Promise<void> {
    const exchanges = groupBy(messages, ({ item }) => item.exchange)
    await Promise.all(Array.from(exchanges, ([exchange, group]) => this.#send(exchange, group, signal)))
  }

  async close(): Promise<void> {
    const closing = Array.from(this.#channels.values(), async (opening) => (await opening).close())
    this.#channels.clear()
    await settledWithin(this.runtime, answerTimeout, Promise.allSettled(closing))
  }

  /** Never rejects. */
  async #send(exchange: string, group: readonly Outgoing<Envelope>[], signal: AbortSignal): Promise<void> {
    let channel: PublishChannel
    try {
      channel = await this.#channel(exchange, signal)
    } catch (error) {
      const failure = this.#notConnected(error)
      for (const message of group) message.settle(failure)
      return
    }
    await channel.send(group, signal)
  }

  async #channel(exchange: string, signal: AbortSignal): Promise<PublishChannel> {
    const { connectTimeout } = this.#settings
    let opening = this.#channels.get(exchange)
    if (opening === undefined) {
      // If it takes too long for this call it stays open for the next one, so it must not keep the context of this call.
      opening = outside(() => this.#open(exchange))
      this.#channels.set(exchange, opening)
      opening.catch(() => this.#channels.delete(exchange))
    }
    using waiting = linkedController(signal)
    const timer = this.runtime.setTimeout(() => waiting.abort(connectTimedOut(connectTimeout)), connectTimeout)
    try {
      return await abortable(opening, waiting.signal)
    } finally {
      timer.cancel()
    }
  }

  async #open(exchange: string): Promise<PublishChannel> {
    const channel = await this.#connection.createConfirmChannel()
    recordServer(this.#connection, channel)
    return new PublishChannel(channel, { ...this.#settings, onClosed: () => this.#channels.delete(exchange) })
  }

  /** The connection is down, or closed for good. */
  #notConnected(error: unknown): PublishFailure {
    const text = isOver(this.#connection, error)
      ? 'The connection to RabbitMQ is closed and will not be restored. Connect with { recovery: true }, and close the connection after the publisher.'
      : 'There is no connection to RabbitMQ.'
    return destinationFailure(text, error)
  }
}

function toQueue(destination: string): RabbitmqRoute {
  return { exchange: '', routingKey: destination }
}

function checkRoute(route: RabbitmqRoute): RabbitmqRoute {
  if (typeof route?.exchange === 'string' && typeof route.routingKey === 'string') return route
  throw new InvalidOptionError('route', 'must return { exchange, routingKey }, two strings.')
}

function checkFlag(option: string, value: boolean): void {
  if (typeof value !== 'boolean') throw new InvalidOptionError(option, 'must be true or false.')
}

function connectTimedOut(timeout: number): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', `RabbitMQ was not connected within ${timeout} ms.`)
}
