import { AckordError, type Attributes, type Backoff, isAckordError, type Logger, type RawMessage } from '@ackord/core'
import { type Delivery, type FailureState, rejectUnreadable, type SourceDriver } from '@ackord/core/broker'
import { linkedController } from '@ackord/core/internal'
import { addressOf, productOf, serverOf } from '../addresses.ts'
import type { AmqpConnection, AmqpMessage } from '../client.ts'
import { conditionOf } from '../conditions.ts'
import { isOver, lastErrorOf, whenOpen } from '../connection-watch.ts'
import type { Verdict } from './dispositions.ts'
import { bytesOf, foreignAttributes, readMessage } from './read-message.ts'
import { type BrokerTraits, type LinkDelivery, ReceiverLink, type ReceiverSettings } from './receiver-link.ts'

export interface SubscriptionSettings extends ReceiverSettings {
  readonly connection: AmqpConnection
  /** The name that the application uses, which may be short for an address. */
  readonly address: string
  readonly attributes: ((native: AmqpMessage) => Attributes) | undefined
  readonly delay: 'local' | 'broker'
  /** How a message ends that was rejected, and whose dead letter has confirmed it, if there is one. */
  readonly ending: Verdict
  readonly backoff: Backoff
  readonly logger: Logger
  readonly receive: (delivery: Delivery) => RawMessage
}

// Milliseconds after which a connection that was never open is worth a line in the log.
const patience = 5000

/** One iteration: it receives from the first `next()` on, and attaches another link when one is lost. */
export class Subscription implements SourceDriver<LinkDelivery> {
  readonly backoff: Backoff
  readonly runtime: SubscriptionSettings['runtime']
  readonly logger: Logger
  readonly fields: { readonly address: string }
  readonly lost = 'The queue is not read: the link to the AMQP broker was lost. It is attached again.'
  readonly restored = 'The queue is read again.'
  readonly #settings: SubscriptionSettings
  /** Whether the log says already that nothing is read. */
  #isKnown = false

  constructor(settings: SubscriptionSettings) {
    this.#settings = settings
    this.backoff = settings.backoff
    this.runtime = settings.runtime
    this.logger = settings.logger
    this.fields = { address: settings.address }
  }

  get system(): string {
    return productOf(this.#settings.connection)
  }

  get serverAddress(): string | undefined {
    return serverOf(this.#settings.connection).serverAddress
  }

  get serverPort(): number | undefined {
    return serverOf(this.#settings.connection).serverPort
  }

  async open(push: (delivery: LinkDelivery) => void, signal: AbortSignal): Promise<ReceiverLink> {
    const { connection } = this.#settings
    await this.#connected(signal)
    return new ReceiverLink(connection, this.#traits(), this.#settings, push)
  }

  messageOf(delivery: LinkDelivery): RawMessage | undefined {
    return delivery.link.holds(delivery) ? this.#receive(delivery) : undefined
  }

  started(): void {
    // From now on a loss is logged at once, and the next attempt waits for the connection.
    this.#isKnown = true
  }

  fatalError(reason: unknown, { opening, wasOpen }: FailureState): AckordError | undefined {
    this.#isKnown = true
    if (!opening || !(isOver(reason) || endsSource(conditionOf(reason), wasOpen))) return undefined
    const { address } = this.#settings
    return new AckordError('ACKORD_SOURCE_FAILED', `'${address}' cannot be read: ${advice(reason)}`, { cause: reason })
  }

  /** Waits for the connection. The first time it fails after a while, so that the log says so; rhea itself never gives up. */
  async #connected(signal: AbortSignal): Promise<void> {
    const { connection, runtime } = this.#settings
    using waiting = linkedController(signal)
    const timer = this.#isKnown
      ? undefined
      : runtime.setTimeout(() => waiting.abort(notConnected(connection)), patience, { keepAlive: false })
    try {
      await whenOpen(connection, waiting.signal)
    } finally {
      timer?.cancel()
    }
  }

  /** Known when the connection is open. */
  #traits(): BrokerTraits {
    const { connection, address, delay } = this.#settings
    const isRabbitmq = productOf(connection) === 'rabbitmq'
    return {
      address: addressOf(connection, address),
      mode: isRabbitmq ? 'confirmed-first' : 'second',
      delays: delay === 'broker' && isRabbitmq && delaysReturned(connection.properties?.['version']),
    }
  }

  /** `undefined` for a message that cannot be read. It is rejected here, because no handler will see it. */
  #receive(delivery: LinkDelivery): RawMessage | undefined {
    const { address, attributes, logger } = this.#settings
    const { native } = delivery
    delivery.yielded = true
    try {
      if (attributes === undefined) return this.#message(delivery, readMessage(native, address))
      return this.#message(delivery, { data: bytesOf(native), attributes: attributes(native) })
    } catch (cause) {
      const message = this.#message(delivery, { data: bytesOf(native), attributes: foreignAttributes(native, address) })
      rejectUnreadable(message, `A message of '${address}'`, cause, { logger, fields: { address } })
      return undefined
    }
  }

  #message(delivery: LinkDelivery, content: { readonly data: Uint8Array; readonly attributes: Attributes }): RawMessage {
    const { receive, address, ending } = this.#settings
    const { native, link, repeats } = delivery
    return receive({
      ...content,
      deliveryCount: earlierDeliveries(native) + repeats + 1,
      origin: address,
      ack: () => link.settle(delivery, { outcome: 'accepted' }),
      nack: (error, { retryAfter = 0 }) => link.requeue(delivery, retryAfter, { outcome: isUnhandled(error) ? 'released' : 'failed' }),
      terminate: () => link.settle(delivery, ending),
    })
  }
}

/** The header's count has only deliveries that failed. */
function earlierDeliveries({ delivery_count: count }: AmqpMessage): number {
  return typeof count === 'number' && Number.isSafeInteger(count) && count > 0 ? count : 0
}

/** The message is returned without having been handled. */
function isUnhandled(error: unknown): boolean {
  return (
    isAckordError(error, 'ACKORD_SHUTDOWN') || isAckordError(error, 'ACKORD_KEY_NACKED') || isAckordError(error, 'ACKORD_TENANT_LIMITED')
  )
}

/** RabbitMQ 4.3 and later, in quorum queues. */
function delaysReturned(version: unknown): boolean {
  const [major = 0, minor = 0] = String(version)
    .split('.')
    .map((part) => Number.parseInt(part, 10) || 0)
  return major > 4 || (major === 4 && minor >= 3)
}

/**
 * Whether an error while attaching ends the source. At first everything that the broker refuses does, because it is most likely a mistake in the configuration. Later on
 * a queue that is missing or locked may come back: it is being moved, or its node restarts.
 */
function endsSource(condition: string | undefined, wasOpen: boolean): boolean {
  if (condition === undefined) return false
  if (condition === 'amqp:unauthorized-access' || condition === 'amqp:invalid-field' || condition === 'amqp:not-allowed') return true
  return !wasOpen && (condition === 'amqp:not-found' || condition === 'amqp:resource-locked' || condition === 'amqp:not-implemented')
}

function advice(cause: unknown): string {
  const said = cause instanceof Error ? cause.message : String(cause)
  if (isOver(cause)) return `${said} Open it with all_errors_non_fatal, leave reconnect switched on, and close it after the source.`
  switch (conditionOf(cause)) {
    case 'amqp:not-found':
      return `it does not exist. Create it: AMQP 1.0 cannot. The broker says: ${said}`
    case 'amqp:unauthorized-access':
      return `the user is not allowed to. Grant it the permission to read. The broker says: ${said}`
    case 'amqp:resource-locked':
      return `another consumer has exclusive access. The broker says: ${said}`
    default:
      return `the broker refuses the link: ${said}`
  }
}

function notConnected(connection: AmqpConnection): AckordError {
  const cause = lastErrorOf(connection)
  const text = `There is no connection to the AMQP broker yet${cause === undefined ? '.' : `: ${cause.message}`}`
  return new AckordError('ACKORD_SOURCE_FAILED', text, cause === undefined ? {} : { cause })
}
