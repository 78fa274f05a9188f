import { AckordError, type Attributes, type Backoff, isAckordError, type Logger, type RawMessage } from '@ackord/core'
import { type Delivery, type FailureState, rejectUnreadable, type SourceDriver } from '@ackord/core/broker'
import { abortable } from '@ackord/core/internal'
import { type RabbitmqChannel, type RabbitmqConnection, type RabbitmqMessage, replyCode } from '../client.ts'
import { isOver, recordServer, serverOfConnection } from '../connection-watch.ts'
import { type ChannelDelivery, ConsumerChannel, type ConsumerSettings } from './consumer-channel.ts'
import type { DeliveryCounts } from './delivery-counts.ts'
import { bytesOf, foreignAttributes, readMessage } from './read-message.ts'
import { RetryQueues, restoreFields } from './retry-queues.ts'

export interface SubscriptionSettings extends Omit<ConsumerSettings, 'retries'> {
  readonly connection: RabbitmqConnection
  readonly attributes: ((native: RabbitmqMessage) => Attributes) | undefined
  readonly backoff: Backoff
  readonly logger: Logger
  readonly counts: DeliveryCounts
  readonly retryQueues: boolean
  readonly retryConnection: RabbitmqConnection
  readonly receive: (delivery: Delivery) => RawMessage
}

/** One iteration: it consumes from the first `next()` on, and opens another channel when one is lost. */
export class Subscription implements SourceDriver<ChannelDelivery> {
  readonly system = 'rabbitmq'
  readonly backoff: SubscriptionSettings['backoff']
  readonly runtime: SubscriptionSettings['runtime']
  readonly logger: Logger
  readonly fields: { readonly queue: string }
  readonly lost = 'The queue is not consumed: the channel to RabbitMQ was lost. It is opened again.'
  readonly restored = 'The queue is consumed again.'
  readonly #settings: SubscriptionSettings
  readonly #retries: RetryQueues | undefined

  constructor(settings: SubscriptionSettings) {
    this.#settings = settings
    this.backoff = settings.backoff
    this.runtime = settings.runtime
    this.logger = settings.logger
    this.fields = { queue: settings.queue }
    this.#retries = settings.retryQueues ? new RetryQueues({ ...settings, connection: settings.retryConnection }) : undefined
  }

  get serverAddress(): string | undefined {
    return serverOfConnection(this.#settings.connection).serverAddress
  }

  get serverPort(): number | undefined {
    return serverOfConnection(this.#settings.connection).serverPort
  }

  async open(push: (delivery: ChannelDelivery) => void, signal: AbortSignal): Promise<ConsumerChannel> {
    const channel = await this.#createChannel(signal)
    recordServer(this.#settings.connection, channel)
    return new ConsumerChannel(channel, { ...this.#settings, retries: this.#retries }, push)
  }

  messageOf(delivery: ChannelDelivery): RawMessage | undefined {
    return delivery.consumer.holds(delivery) ? this.#receive(delivery) : undefined
  }

  started(): void {
    this.#retries?.restore()
  }

  async finish(): Promise<void> {
    await this.#retries?.close()
  }

  // The reason why an open channel ended is no answer to opening one: RabbitMQ also closes it with 406 when an ack takes longer than its consumer_timeout.
  fatalError(reason: unknown, state: FailureState): AckordError | undefined {
    const { connection, queue } = this.#settings
    if (!state.opening || !(isOver(connection, reason) || endsSource(reason, state))) return undefined
    return openingFailed(queue, reason)
  }

  /** The connection may be down for a long time; an abort does not wait for it. */
  async #createChannel(signal: AbortSignal): Promise<RabbitmqChannel> {
    const creating = this.#settings.connection.createChannel()
    try {
      return await abortable(creating, signal)
    } catch (error) {
      // A channel that is created after the abort is not used.
      creating.then((unused) => unused.close()).catch(() => {})
      throw error
    }
  }

  /** `undefined` for a message that cannot be read. It is rejected here, because no handler will see it. */
  #receive(delivery: ChannelDelivery): RawMessage | undefined {
    const { queue, attributes, logger } = this.#settings
    const native = restoreFields(delivery.native, queue)
    delivery.yielded = true
    try {
      if (attributes === undefined) return this.#message(delivery, readMessage(native, queue))
      return this.#message(delivery, { data: bytesOf(native), attributes: attributes(native) })
    } catch (cause) {
      const message = this.#message(delivery, { data: bytesOf(native), attributes: foreignAttributes(native, queue) })
      rejectUnreadable(message, `A message of queue '${queue}'`, cause, { logger, fields: { queue } })
      return undefined
    }
  }

  #message(delivery: ChannelDelivery, content: { readonly data: Uint8Array; readonly attributes: Attributes }): RawMessage {
    const { counts, receive, queue } = this.#settings
    const { native, consumer } = delivery
    const { countHeader } = consumer
    const deliveryCount = counts.of(native, countHeader)
    return receive({
      ...content,
      deliveryCount,
      origin: queue,
      ack: () => {
        consumer.ack(delivery)
        if (deliveryCount > 1) counts.settled(native)
      },
      nack: (error, { retryAfter = 0 }) => {
        counts.failed(native, countHeader, deliveryCount, error)
        // The router keeps an order per key: a message that waits in a retry queue would return behind later messages of its key.
        if (isAckordError(error, 'ACKORD_KEY_NACKED')) this.#retries?.stop()
        return consumer.requeue(delivery, retryAfter, deliveryCount)
      },
      park: () => consumer.park(delivery),
    })
  }
}

/** AMQP's reply codes about the queue or the user's permissions. */
const notAllowed = 403
const notFound = 404
const locked = 405
const mismatch = 406

/**
 * Whether an error while opening ends the source. At first everything that RabbitMQ refuses does, because it is most likely a mistake in the configuration. Later on
 * a queue that is missing or locked may come back: it is being moved, or its node restarts.
 */
function endsSource(error: unknown, { wasOpen }: FailureState): boolean {
  const code = replyCode(error)
  if (code === notAllowed || code === mismatch) return true
  return !wasOpen && (code === notFound || code === locked)
}

function openingFailed(queue: string, cause: unknown): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', `Queue '${queue}' cannot be consumed: ${advice(cause)}`, { cause })
}

function advice(cause: unknown): string {
  switch (replyCode(cause)) {
    case notFound:
      return "it does not exist. Create it, or have the source do so with declare: { type: 'quorum' }."
    case notAllowed:
      return "the user is not allowed to. Grant it the permission to read, and to configure if the source has 'declare'."
    case locked:
      return 'another consumer has exclusive access.'
    case mismatch:
      return "'declare' is not accepted: the queue exists with other properties, or an argument is invalid."
    default:
      return 'the connection is closed and will not be restored. Connect with { recovery: true }, and close the connection after the source.'
  }
}
