import { AckordError, type Attributes, type Backoff, type Delivery, idle, type Logger, type RawMessage } from '@ackord/core'
import { abortable, type IterationOwner, PushedMessages } from '@ackord/core/internal'
import type { RabbitmqChannel, RabbitmqConnection, RabbitmqMessage } from './client.ts'
import { isOver } from './connection-watch.ts'
import { type ChannelDelivery, ConsumerChannel, type ConsumerSettings } from './consumer-channel.ts'
import { deliveryCount } from './delivery-count.ts'
import { bytesOf, foreignAttributes, readMessage } from './read-attributes.ts'
import { endsSource, openingFailed } from './source-errors.ts'

export interface SubscriptionSettings extends ConsumerSettings {
  readonly connection: RabbitmqConnection
  readonly attributes: ((native: RabbitmqMessage) => Attributes) | undefined
  readonly backoff: Backoff
  readonly logger: Logger
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
  readonly messages: PushedMessages<ChannelDelivery>

  constructor(settings: SubscriptionSettings, signal: AbortSignal, owner: IterationOwner) {
    this.#settings = settings
    this.#owner = owner
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
    await left
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
    let attempt = 0
    while (!signal.aborted) {
      let reason: unknown
      try {
        const consumer = await this.#open()
        const openedAt = runtime.now()
        if (down) logger.info({ queue }, 'The queue is consumed again.')
        before = true
        down = false
        reason = await consumer.ended
        void consumer.leave()
        if (runtime.now() - openedAt >= steady) attempt = 0
      } catch (error) {
        if (signal.aborted) return
        if (isOver(connection, error) || endsSource(error, { before })) throw openingFailed(queue, error)
        reason = error
      }
      if (signal.aborted) return
      if (!down) logger.warn({ err: reason, queue }, 'The queue is not consumed: the channel to RabbitMQ was lost. It is opened again.')
      down = true
      attempt += 1
      await idle(runtime, backoff(attempt, runtime.random), signal)
    }
  }

  async #open(): Promise<ConsumerChannel> {
    const consumer = new ConsumerChannel(await this.#createChannel(), this.#settings, (delivery) => this.messages.push(delivery))
    this.#consumers.add(consumer)
    void consumer.closed.then(() => {
      this.#consumers.delete(consumer)
      this.#finishIfDone()
    })
    // Left while the channel was on its way to us.
    if (this.messages.ending.aborted) await consumer.leave()
    await consumer.start()
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
    const { native } = delivery
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
    return this.#settings.receive({
      ...content,
      deliveryCount: deliveryCount(delivery.native, this.#settings.queue),
      ack: () => delivery.consumer.ack(delivery),
      nack: (_error, { retryAfter = 0 }) => delivery.consumer.requeue(delivery, retryAfter),
    })
  }

  async #leave(): Promise<void> {
    await Promise.all([...this.#consumers].map((consumer) => consumer.leave()))
    this.#finishIfDone()
  }

  #finishIfDone(): void {
    if (this.messages.ending.aborted && this.#consumers.size === 0) this.#owner.finished(this)
  }
}
