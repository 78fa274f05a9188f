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
import { addressOf, productOf, serverOf } from '../addresses.ts'
import type { AmqpConnection } from '../client.ts'
import { isOver, lastErrorOf, watchConnection, whenOpen } from '../connection-watch.ts'
import { type Envelope, notAttached } from './publish-failures.ts'
import { SenderLink } from './sender-link.ts'
import { messageWriter } from './write-message.ts'

export interface AmqpPublisherOptions {
  /**
   * The address of a message to this destination, such as `exchangeAddress('events', message.type)`. Default: the destination itself. On RabbitMQ a name that does
   * not begin with `/` is a queue: `orders` is `/queues/orders`.
   */
  readonly address?: ((destination: string, message: RawMessage) => string) | undefined
  /**
   * The fault that is reported when a message reaches no queue. `destination`: a relay pauses the destination and counts no attempts.
   * `record`: it tries the message again and parks it in the end, and the others go on. Default: 'destination', and 'record' with an `address`,
   * where one message with an unknown routing key must not stop the rest.
   */
  readonly unroutable?: 'destination' | 'record' | undefined
  /** Whether messages survive a restart of the broker in a durable queue. Default: true. */
  readonly durable?: boolean | undefined
  /**
   * How a message is written. `binary`: its bytes are the body, its attributes are application properties. `structured`: attributes and data are one JSON text, for
   * consumers that do not read application properties. Sources read both. Default: 'binary'.
   */
  readonly mode?: 'binary' | 'structured' | undefined
  /** Milliseconds that `publish()` waits for a connection that is being restored, and for a link; then the destination is at fault. Default: 5,000. */
  readonly connectTimeout?: number | undefined
  readonly runtime?: Runtime | undefined
  /** Logs errors of the connection. Default: that of the relay or router that uses the publisher; until then the console, from `info` up. */
  readonly logger?: Logger | undefined
}

/**
 * Publishes over AMQP 1.0. Messages are sent unsettled: one that is `ok` was accepted by the broker, which means that it is in a queue. The messages of a call are sent
 * without waiting for each other's outcomes, as far as the broker gives credit; the others wait until it does, or until the caller's signal is aborted. Their order holds per address.
 * `connection` is opened by rhea's `connect()`, which connects again by itself.
 */
export function amqpPublisher(connection: AmqpConnection, options: AmqpPublisherOptions = {}): Publisher & Closable {
  const {
    address,
    unroutable = address === undefined ? 'destination' : 'record',
    durable = true,
    mode = 'binary',
    connectTimeout = 5000,
    runtime = systemRuntime,
    logger,
    ...unknown
  } = options
  rejectUnknownOptions('An AMQP publisher', unknown)
  if (address !== undefined) checkFunction('address', address)
  checkChoice('unroutable', unroutable, ['destination', 'record'])
  if (typeof durable !== 'boolean') throw new InvalidOptionError('durable', 'must be true or false.')
  checkChoice('mode', mode, ['binary', 'structured'])
  checkDuration('connectTimeout', connectTimeout, { min: 1 })
  const { inheritPorts } = new PartPorts({ logger: watchConnection(connection, logger) })
  const encode = messageWriter(connection.container, { mode, durable })
  return createPublisher(new AmqpPublisherDriver(connection, { address, unroutable, connectTimeout, runtime, inheritPorts, encode }))
}

interface PublisherSettings {
  readonly address: ((destination: string, message: RawMessage) => string) | undefined
  readonly unroutable: 'destination' | 'record'
  readonly connectTimeout: number
  readonly runtime: Runtime
  readonly inheritPorts: PartPorts['inheritPorts']
  readonly encode: (message: RawMessage) => Buffer
}

/** Each link has a session, and RabbitMQ allows 64 of them on a connection: links that are not in use are closed beyond this number. */
const maxIdleLinks = 32

class AmqpPublisherDriver implements PublisherDriver<Envelope> {
  readonly broker = 'AMQP'
  readonly routeName = 'address'
  readonly inheritPorts: PartPorts['inheritPorts']
  readonly runtime: Runtime
  readonly #connection: AmqpConnection
  readonly #settings: PublisherSettings
  /** By address, the one used last at the end. */
  readonly #links = new Map<string, SenderLink>()

  constructor(connection: AmqpConnection, settings: PublisherSettings) {
    this.#connection = connection
    this.#settings = settings
    this.runtime = settings.runtime
    this.inheritPorts = settings.inheritPorts
  }

  get system(): string {
    return productOf(this.#connection)
  }

  get serverAddress(): string | undefined {
    return serverOf(this.#connection).serverAddress
  }

  get serverPort(): number | undefined {
    return serverOf(this.#connection).serverPort
  }

  route(destination: string, message: RawMessage): string {
    const { address } = this.#settings
    return address === undefined ? destination : checkAddress(address(destination, message))
  }

  write(message: RawMessage, address: string): Envelope {
    return { address, payload: this.#settings.encode(message) }
  }

  async send(messages: readonly Outgoing<Envelope>[], { signal }: SendOptions): Promise<void> {
    const addresses = groupBy(messages, ({ item }) => item.address)
    await Promise.all(Array.from(addresses, ([address, group]) => this.#send(address, group, signal)))
  }

  async close(): Promise<void> {
    const closing = Array.from(this.#links.values(), (link) => link.close())
    this.#links.clear()
    await settledWithin(this.runtime, answerTimeout, Promise.allSettled(closing))
  }

  /** Never rejects. */
  async #send(address: string, group: readonly Outgoing<Envelope>[], signal: AbortSignal): Promise<void> {
    const { connectTimeout } = this.#settings
    using waiting = linkedController(signal)
    const timer = this.runtime.setTimeout(() => waiting.abort(connectTimedOut(connectTimeout)), connectTimeout)
    try {
      await whenOpen(this.#connection, waiting.signal)
      await this.#link(address).send(group, signal, waiting.signal)
    } catch (error) {
      const failure = this.#connection.is_open() ? notAttached(address, error) : this.#notConnected(error)
      for (const message of group) message.settle(failure)
    } finally {
      timer.cancel()
    }
  }

  #link(address: string): SenderLink {
    let link = this.#links.get(address)
    if (link === undefined || link.isLost) {
      // If it takes too long for this call it stays open for the next one, so it must not keep the context of this call.
      link = outside(() => new SenderLink(this.#connection, addressOf(this.#connection, address), this.#settings))
      this.#forgetWhenLost(address, link)
    }
    this.#links.delete(address)
    this.#links.set(address, link)
    this.#closeIdle()
    return link
  }

  #forgetWhenLost(address: string, link: SenderLink): void {
    void link.lost.then(() => {
      if (this.#links.get(address) === link) this.#links.delete(address)
    })
  }

  #closeIdle(): void {
    if (this.#links.size <= maxIdleLinks) return
    // The last one is about to be used.
    const [oldest] = Array.from(this.#links)
      .slice(0, -1)
      .filter(([, link]) => link.isIdle)
    if (oldest === undefined) return
    const [address, link] = oldest
    this.#links.delete(address)
    void link.close()
  }

  /** The connection is down, or closed for good. */
  #notConnected(error: unknown): PublishFailure {
    if (isOver(error))
      return destinationFailure(`${error instanceof Error ? error.message : ''} Close the connection after the publisher.`, error)
    return destinationFailure('There is no connection to the AMQP broker.', lastErrorOf(this.#connection) ?? error)
  }
}

function checkAddress(address: string): string {
  if (typeof address === 'string' && address !== '') return address
  throw new InvalidOptionError('address', 'must return a non-empty string.')
}

function connectTimedOut(timeout: number): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', `the broker did not answer within ${timeout} ms`)
}
