import { AckordError, type Attributes, type Backoff, type Delivery, idle, type Logger, outside, type RawMessage } from '@ackord/core'
import { abortable } from '@ackord/core/internal'
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

/** What an iteration belongs to. */
export interface SubscriptionOwner {
  readonly disposed: boolean
  started(subscription: Subscription): void
  /** It has ended, and nothing of it is left to be settled. */
  finished(subscription: Subscription): void
}

type PullResult = IteratorResult<RawMessage, undefined>

interface WaitingPull {
  readonly resolve: (result: PullResult) => void
  readonly reject: (error: unknown) => void
}

const done = { value: undefined, done: true } as const
// A consumer that lived this long, in milliseconds, was well: its end is a new failure, not the next one in a row.
const steady = 10_000

/**
 * One iteration: it consumes from the first `next()` on, and opens another channel when one is lost.
 * Written by hand: a generator cannot be left while it waits.
 */
export class Subscription implements AsyncIterableIterator<RawMessage> {
  readonly #settings: SubscriptionSettings
  readonly #signal: AbortSignal
  readonly #owner: SubscriptionOwner
  readonly #ending = new AbortController()
  readonly #buffer: ChannelDelivery[] = []
  readonly #pulls: WaitingPull[] = []
  // The one that consumes, and earlier ones with messages that are not settled.
  readonly #consumers = new Set<ConsumerChannel>()
  #started = false
  #left: Promise<void> | undefined
  #failure: { readonly error: unknown } | undefined

  constructor(settings: SubscriptionSettings, signal: AbortSignal, owner: SubscriptionOwner) {
    this.#settings = settings
    this.#signal = signal
    this.#owner = owner
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<PullResult> {
    if (this.#signal.aborted || this.#owner.disposed) void this.#end()
    if (this.#left !== undefined) return this.#afterEnd(this.#left)
    if (!this.#started) this.#start()
    const value = this.#take()
    if (value !== undefined) return Promise.resolve({ value, done: false })
    return new Promise((resolve, reject) => this.#pulls.push({ resolve, reject }))
  }

  async return(): Promise<PullResult> {
    await this.#end()
    return done
  }

  /** Ends the iteration and gives back what was yielded and is not settled. Idempotent. */
  async dispose(): Promise<void> {
    const left = this.#end()
    await Promise.all([...this.#consumers].map((consumer) => consumer.close('disposed')))
    await left
  }

  #start(): void {
    this.#started = true
    this.#owner.started(this)
    this.#signal.addEventListener('abort', this.#onAbort, { once: true })
    // Whoever pulls does so in a context of its own, which must not stay behind here.
    outside(() => void this.#run().catch((error: unknown) => this.#fail(error)))
  }

  readonly #onAbort = (): void => void this.#end()

  async #run(): Promise<void> {
    const { connection, queue, runtime, backoff, logger } = this.#settings
    const { signal } = this.#ending
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
    const consumer = new ConsumerChannel(await this.#createChannel(), this.#settings, (delivery) => this.#accept(delivery))
    this.#consumers.add(consumer)
    void consumer.closed.then(() => {
      this.#consumers.delete(consumer)
      this.#finishIfDone()
    })
    // Left while the channel was on its way to us.
    if (this.#ending.signal.aborted) await consumer.leave()
    await consumer.start()
    return consumer
  }

  /** A connection may be away for a long time; an abort does not wait for it. */
  async #createChannel(): Promise<RabbitmqChannel> {
    const creating = this.#settings.connection.createChannel()
    try {
      return await abortable(creating, this.#ending.signal)
    } catch (error) {
      creating.then((late) => late.close()).catch(() => {})
      throw error
    }
  }

  #accept(delivery: ChannelDelivery): void {
    this.#buffer.push(delivery)
    while (this.#pulls.length > 0) {
      const value = this.#take()
      if (value === undefined) return
      this.#pulls.shift()?.resolve({ value, done: false })
    }
  }

  #take(): RawMessage | undefined {
    for (let delivery = this.#buffer.shift(); delivery !== undefined; delivery = this.#buffer.shift()) {
      if (!delivery.consumer.holds(delivery)) continue
      const message = this.#receive(delivery)
      if (message !== undefined) return message
    }
    return undefined
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

  #fail(error: unknown): void {
    const pull = this.#pulls.shift()
    if (pull === undefined) this.#failure = { error }
    else pull.reject(error)
    void this.#end()
  }

  #end(): Promise<void> {
    this.#left ??= this.#leave()
    return this.#left
  }

  async #leave(): Promise<void> {
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#ending.abort()
    this.#buffer.length = 0
    await Promise.all([...this.#consumers].map((consumer) => consumer.leave()))
    for (const pull of this.#pulls.splice(0)) pull.resolve(done)
    this.#finishIfDone()
  }

  /** A failure that nobody waited for is told to the next one who asks, once. */
  async #afterEnd(left: Promise<void>): Promise<PullResult> {
    await left
    const failure = this.#failure
    this.#failure = undefined
    if (failure !== undefined) throw failure.error
    return done
  }

  #finishIfDone(): void {
    if (this.#left !== undefined && this.#consumers.size === 0) this.#owner.finished(this)
  }
}
