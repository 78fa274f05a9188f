import { AckordError, type Attributes, type Backoff, type Delivery, isAckordError, type Logger, type RawMessage } from '@ackord/core'
import { abortable, FailurePause, type IterationOwner, PushedMessages } from '@ackord/core/internal'
import { type RabbitmqChannel, type RabbitmqConnection, type RabbitmqMessage, replyCode } from '../client.ts'
import { isOver } from '../connection-watch.ts'
import { type ChannelDelivery, ConsumerChannel, type ConsumerSettings } from './consumer-channel.ts'
import type { DeliveryCounts } from './delivery-counts.ts'
import { bytesOf, foreignAttributes, readMessage } from './read-message.ts'
import { restoreFields } from './retry-message.ts'
import { RetryQueues } from './retry-queues.ts'

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

// A consumer that lived this long, in milliseconds, was well: its end is a new failure, not the next one in a row.
const steady = 10_000

/** One iteration: it consumes from the first `next()` on, and opens another channel when one is lost. */
export class Subscription {
  readonly #settings: SubscriptionSettings
  readonly #owner: IterationOwner
  // The one that consumes, and earlier ones with messages that are not settled.
  readonly #consumers = new Set<ConsumerChannel>()
  readonly #retries: RetryQueues | undefined
  readonly messages: PushedMessages<ChannelDelivery>

  constructor(settings: SubscriptionSettings, signal: AbortSignal, owner: IterationOwner) {
    this.#settings = settings
    this.#owner = owner
    this.#retries = settings.retryQueues ? new RetryQueues({ ...settings, connection: settings.retryConnection }) : undefined
    this.messages = new PushedMessages<ChannelDelivery>(
      {
        start: () => this.#start(),
        messageOf: (delivery) => (delivery.consumer.holds(delivery) ? this.#receive(delivery) : undefined),
        leave: () => this.#leave(),
        isDisposed: () => owner.disposed,
      },
      signal,
    )
  }

  /** Ends the iteration and gives back what was yielded and is not settled. Idempotent. */
  async dispose(): Promise<void> {
    const left = this.messages.end()
    await Promise.all([...this.#consumers].map((consumer) => consumer.close('disposed')))
    await Promise.all([left, this.#retries?.close()])
  }

  #start(): void {
    this.#owner.started(this)
    this.#run().catch((error: unknown) => this.messages.fail(error))
  }

  async #run(): Promise<void> {
    const { connection, queue, runtime, backoff, logger } = this.#settings
    const signal = this.messages.ending
    let before = false
    let down = false
    const pause = new FailurePause({ backoff, runtime })
    while (!signal.aborted) {
      let reason: unknown
      try {
        const consumer = await this.#open()
        const openedAt = runtime.monotonic()
        if (down) logger.info({ queue }, 'The queue is consumed again.')
        before = true
        down = false
        reason = await consumer.ended
        void consumer.leave()
        if (runtime.monotonic() - openedAt >= steady) pause.succeeded()
      } catch (error) {
        if (signal.aborted) return
        if (isOver(connection, error) || endsSource(error, { before })) throw openingFailed(queue, error)
        reason = error
      }
      if (signal.aborted) return
      if (!down) logger.warn({ err: reason, queue }, 'The queue is not consumed: the channel to RabbitMQ was lost. It is opened again.')
      down = true
      await pause.failed(signal)
    }
  }

  async #open(): Promise<ConsumerChannel> {
    const consumer = new ConsumerChannel(await this.#createChannel(), { ...this.#settings, retries: this.#retries }, (delivery) =>
      this.messages.push(delivery),
    )
    this.#consumers.add(consumer)
    void consumer.closed.then(() => {
      this.#consumers.delete(consumer)
      this.#finishIfDone()
    })
    // Left while the channel was on its way to us.
    if (this.messages.ending.aborted) await consumer.leave()
    await consumer.start()
    this.#retries?.restore()
    return consumer
  }

  /** A connection may be away for a long time; an abort does not wait for it. */
  async #createChannel(): Promise<RabbitmqChannel> {
    const creating = this.#settings.connection.createChannel()
    try {
      return await abortable(creating, this.messages.ending)
    } catch (error) {
      creating.then((late) => late.close()).catch(() => {})
      throw error
    }
  }

  /** `undefined` for a message that cannot be read; it is rejected here, because nobody else could. */
  #receive(delivery: ChannelDelivery): RawMessage | undefined {
    const { queue, attributes, logger } = this.#settings
    const native = restoreFields(delivery.native, queue)
    delivery.yielded = true
    try {
      if (attributes === undefined) return this.#message(delivery, readMessage(native, queue))
      return this.#message(delivery, { data: bytesOf(native), attributes: attributes(native) })
    } catch (cause) {
      const text = `A message of queue '${queue}' cannot be read.`
      const error = new AckordError('ACKORD_INVALID_MESSAGE', text, { retryable: false, cause })
      logger.error({ err: error, queue }, 'A message cannot be read and is rejected.')
      // What the broker does not take is delivered again, and rejected again.
      void this.#message(delivery, { data: bytesOf(native), attributes: foreignAttributes(native, queue) }).reject(error)
      return undefined
    }
  }

  #message(delivery: ChannelDelivery, content: { readonly data: Uint8Array; readonly attributes: Attributes }): RawMessage {
    const { counts, receive } = this.#settings
    const { native, consumer } = delivery
    const { countHeader } = consumer
    const deliveryCount = counts.of(native, countHeader)
    return receive({
      ...content,
      deliveryCount,
      ack: () => {
        consumer.ack(delivery)
        if (deliveryCount > 1) counts.settled(native)
      },
      nack: (error, { retryAfter = 0 }) => {
        counts.failed(native, countHeader, deliveryCount, error)
        // The router keeps an order per key: a message that waits elsewhere would return behind those of its key.
        if (isAckordError(error, 'ACKORD_KEY_NACKED')) this.#retries?.stop()
        return consumer.requeue(delivery, retryAfter, deliveryCount)
      },
      park: () => consumer.park(delivery),
    })
  }

  async #leave(): Promise<void> {
    await Promise.all([...this.#consumers].map((consumer) => consumer.leave()))
    this.#finishIfDone()
  }

  #finishIfDone(): void {
    if (!this.messages.ending.aborted || this.#consumers.size > 0) return
    void this.#retries?.close()
    this.#owner.finished(this)
  }
}

/** AMQP's reply codes that are about the queue or our rights. */
const notAllowed = 403
const notFound = 404
const locked = 405
const mismatch = 406

/**
 * Whether an error while opening ends the source. At first all that RabbitMQ refuses does, because it is most likely a mistake in the set-up. Later on
 * a queue that is missing or locked may come back: it is being moved, or its node restarts.
 */
function endsSource(error: unknown, options: { readonly before: boolean }): boolean {
  const code = replyCode(error)
  if (code === notAllowed || code === mismatch) return true
  return !options.before && (code === notFound || code === locked)
}

function openingFailed(queue: string, cause: unknown): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', `Queue '${queue}' cannot be consumed: ${advice(cause)}`, { cause })
}

function advice(cause: unknown): string {
  switch (replyCode(cause)) {
    case notFound:
      return "it does not exist. Create it, or have the source do so with declare: { type: 'quorum' }."
    case notAllowed:
      return "the user is not allowed to. Give it the permission to read, and to configure if the source has 'declare'."
    case locked:
      return 'somebody else consumes it exclusively.'
    case mismatch:
      return "'declare' is not accepted: the queue exists with other properties, or an argument is wrong."
    default:
      return 'the connection is closed and will not come back. Connect with { recovery: true }, and close the connection after the source.'
  }
}
