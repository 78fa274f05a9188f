import {
  AckordError,
  consoleLogger,
  InvalidOptionError,
  type Logger,
  outside,
  type Publisher,
  type PublishFailure,
  type PublishResult,
  type RawMessage,
  type Runtime,
  systemRuntime,
} from '@ackord/core'
import {
  abortable,
  answerTimeout,
  checkChoice,
  checkDuration,
  checkFunction,
  checkNoMore,
  guardLogger,
  PublishCalls,
  settledWithin,
} from '@ackord/core/internal'
import type { RabbitmqConnection } from '../client.ts'
import { isOver, watchConnection } from '../connection-watch.ts'
import { type Outgoing, PublishChannel } from './publish-channel.ts'
import { aborted, notConnected, unencodable, unrouted, wrongData } from './publish-failures.ts'
import { writeBinary, writeStructured } from './write-message.ts'

/** Where in RabbitMQ a message goes. The exchange `''` is the default one: it knows each queue by its name. */
export interface RabbitmqRoute {
  readonly exchange: string
  readonly routingKey: string
}

export interface RabbitmqPublisherOptions {
  /** Where a message to this destination goes. Default: to the queue of that name. */
  readonly route?: ((destination: string, message: RawMessage) => RabbitmqRoute) | undefined
  /**
   * Whether a message that reaches no queue is a failure. If not, RabbitMQ confirms it and it is gone: for events that nobody needs to get.
   * Default: true.
   */
  readonly mandatory?: boolean | undefined
  /**
   * Whose fault a message is that reached no queue. `destination`: a relay pauses the destination and loses no attempts.
   * `record`: it tries the message again and parks it in the end, and the others go on. Default: 'destination', and 'record' with a `route`,
   * where one message with a key that nobody wants must not stop the rest.
   */
  readonly unroutable?: 'destination' | 'record' | undefined
  /** Whether messages survive a restart of RabbitMQ in a durable queue. Default: true. */
  readonly persistent?: boolean | undefined
  /**
   * How a message is written. `binary`: its bytes are the body, its attributes are headers. `structured`: all of it is one JSON text, for consumers
   * that do not read headers. Sources read both. Default: 'binary'.
   */
  readonly mode?: 'binary' | 'structured' | undefined
  /** Milliseconds that `publish()` waits for a connection that is being made again; then the destination is at fault. Default: 5,000. */
  readonly connectTimeout?: number | undefined
  readonly runtime?: Runtime | undefined
  /** Told of a connection that fails. Default: the console, from `info` up. */
  readonly logger?: Logger | undefined
}

/**
 * Publishes with confirms: what is `ok` is in a queue, on its disk where the queue is durable. The messages of a call are sent at once and confirmed together;
 * their order holds per exchange. The connection is amqplib's, best made with `connect(url, { recovery: true })` and not the one of a
 * source: RabbitMQ slows down connections that publish too much, and acks would wait with them.
 */
export function rabbitmqPublisher(connection: RabbitmqConnection, options: RabbitmqPublisherOptions = {}): Publisher & AsyncDisposable {
  const {
    route = toQueue,
    mandatory = true,
    unroutable = options.route === undefined ? 'destination' : 'record',
    persistent = true,
    mode = 'binary',
    connectTimeout = 5000,
    runtime = systemRuntime,
    logger = consoleLogger,
    ...unknown
  } = options
  checkNoMore('A RabbitMQ publisher', unknown)
  checkFunction('route', route)
  checkFlag('mandatory', mandatory)
  checkChoice('unroutable', unroutable, ['destination', 'record'])
  checkFlag('persistent', persistent)
  checkChoice('mode', mode, ['binary', 'structured'])
  checkDuration('connectTimeout', connectTimeout, { min: 1 })
  watchConnection(connection, guardLogger(logger))
  return new RabbitmqPublisher(connection, { route, mandatory, unroutable, persistent, mode, connectTimeout, runtime })
}

interface PublisherSettings {
  readonly route: (destination: string, message: RawMessage) => RabbitmqRoute
  readonly mandatory: boolean
  readonly unroutable: 'destination' | 'record'
  readonly persistent: boolean
  readonly mode: 'binary' | 'structured'
  readonly connectTimeout: number
  readonly runtime: Runtime
}

class RabbitmqPublisher implements Publisher, AsyncDisposable {
  readonly #connection: RabbitmqConnection
  readonly #settings: PublisherSettings
  // One per exchange: RabbitMQ closes the channel on which somebody publishes to an exchange that is missing, and the others have nothing to do with it.
  readonly #channels = new Map<string, Promise<PublishChannel>>()
  readonly #calls = new PublishCalls('The RabbitMQ publisher')
  #disposing: Promise<void> | undefined

  constructor(connection: RabbitmqConnection, settings: PublisherSettings) {
    this.#connection = connection
    this.#settings = settings
  }

  async publish(
    destination: string,
    messages: readonly RawMessage[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly PublishResult[]> {
    return await this.#calls.run(destination, options.signal, () => this.#publish(destination, messages, options.signal))
  }

  /** Waits a while for what is being published, and closes its channels. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#disposing ??= this.#dispose()
    return this.#disposing
  }

  /** Never rejects. */
  async #publish(destination: string, messages: readonly RawMessage[], signal: AbortSignal): Promise<readonly PublishResult[]> {
    const exchanges = new Map<string, Outgoing[]>()
    const sent: Outgoing[] = []
    const results = messages.map((message) => {
      const prepared = this.#prepare(destination, message)
      if ('ok' in prepared) return prepared
      return new Promise<PublishResult>((settle) => {
        const outgoing = { ...prepared, settle }
        sent.push(outgoing)
        const group = exchanges.get(outgoing.exchange)
        if (group === undefined) exchanges.set(outgoing.exchange, [outgoing])
        else group.push(outgoing)
      })
    })
    const onAbort = () => {
      for (const { settle } of sent) settle(aborted(signal.reason))
    }
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      for (const [exchange, group] of exchanges) void this.#send(exchange, group, signal)
      return await Promise.all(results)
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  #prepare(destination: string, message: RawMessage): Omit<Outgoing, 'settle'> | PublishFailure {
    if (!(message.data instanceof Uint8Array)) return wrongData(destination, message.data)
    let route: RabbitmqRoute
    try {
      route = checkRoute(this.#settings.route(destination, message))
    } catch (cause) {
      return unrouted(destination, cause)
    }
    try {
      const { exchange, routingKey } = route
      return { exchange, routingKey, ...(this.#settings.mode === 'binary' ? writeBinary(message) : writeStructured(message)) }
    } catch (cause) {
      return unencodable(route, cause)
    }
  }

  /** Never rejects. */
  async #send(exchange: string, group: readonly Outgoing[], signal: AbortSignal): Promise<void> {
    let channel: PublishChannel
    try {
      channel = await this.#channel(exchange, signal)
    } catch (error) {
      for (const { settle } of group) settle(this.#notConnected(error))
      return
    }
    await channel.send(group, signal)
  }

  async #channel(exchange: string, signal: AbortSignal): Promise<PublishChannel> {
    const { runtime, connectTimeout } = this.#settings
    let opening = this.#channels.get(exchange)
    if (opening === undefined) {
      // Left open for the next call if it takes too long for this one. The call's context must not stay behind in it.
      opening = outside(() => this.#open(exchange))
      this.#channels.set(exchange, opening)
      opening.catch(() => this.#channels.delete(exchange))
    }
    const waiting = new AbortController()
    const timer = runtime.setTimeout(() => waiting.abort(tooLate(connectTimeout)), connectTimeout)
    const onAbort = () => waiting.abort(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      return await abortable(opening, waiting.signal)
    } finally {
      timer.cancel()
      signal.removeEventListener('abort', onAbort)
    }
  }

  async #open(exchange: string): Promise<PublishChannel> {
    const channel = await this.#connection.createConfirmChannel()
    return new PublishChannel(channel, { ...this.#settings, onClosed: () => this.#channels.delete(exchange) })
  }

  #notConnected(error: unknown): PublishFailure {
    const text = isOver(this.#connection, error)
      ? 'The connection to RabbitMQ is closed and will not come back. Connect with { recovery: true }, and close the connection after the publisher.'
      : 'There is no connection to RabbitMQ.'
    return notConnected(text, error)
  }

  async #dispose(): Promise<void> {
    const { runtime } = this.#settings
    await settledWithin(runtime, answerTimeout, this.#calls.close())
    const closing = [...this.#channels.values()].map(async (opening) => (await opening).close())
    this.#channels.clear()
    await settledWithin(runtime, answerTimeout, Promise.allSettled(closing))
  }
}

function toQueue(destination: string): RabbitmqRoute {
  return { exchange: '', routingKey: destination }
}

function checkRoute(route: RabbitmqRoute): RabbitmqRoute {
  if (typeof route?.exchange === 'string' && typeof route.routingKey === 'string') return route
  throw new InvalidOptionError('route', 'must return { exchange, routingKey }, two texts.')
}

function checkFlag(option: string, value: boolean): void {
  if (typeof value !== 'boolean') throw new InvalidOptionError(option, 'must be true or false.')
}

function tooLate(timeout: number): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', `RabbitMQ was not connected within ${timeout} ms.`)
}
