import { AckordError, type Runtime, type Timer } from '@ackord/core'
import { answerTimeout, settledWithin } from '@ackord/core/internal'
import type { RabbitmqChannel, RabbitmqMessage } from './client.ts'
import type { QueueDeclarer } from './declare-queue.ts'

export interface ConsumerSettings {
  readonly queue: string
  readonly declare: QueueDeclarer | undefined
  readonly prefetch: number
  readonly maxDelay: number
  readonly runtime: Runtime
}

/** One delivery of a message. Its tag means something on this channel only, which is why it holds on to it. */
export interface ChannelDelivery {
  readonly native: RabbitmqMessage
  readonly consumer: ConsumerChannel
  /** Whether it was yielded, so that its holder settles it. */
  yielded: boolean
  /** Nacked with a delay that is not over. */
  hold: Timer | undefined
}

/**
 * One consumer on a channel of its own.
 *
 *     consuming ─ leave(), or RabbitMQ cancels ─▶ leaving: nothing more comes, what was yielded can be settled ─ all is settled ─▶ closed
 *     consuming, leaving ─ channel or connection lost, or close() ─▶ closed: RabbitMQ delivers again what is not settled
 */
export class ConsumerChannel {
  /** Resolves when nothing more comes, with the reason. */
  readonly ended: Promise<Error>
  /** Resolves when nothing can be settled any more. */
  readonly closed: Promise<void>
  readonly #channel: RabbitmqChannel
  readonly #settings: ConsumerSettings
  readonly #accept: (delivery: ChannelDelivery) => void
  readonly #unsettled = new Set<ChannelDelivery>()
  // Ours, so that a consumer can be cancelled before RabbitMQ has answered. There once it was asked for.
  #consumerTag: string | undefined
  #failure: Error | undefined
  #leaving: Promise<void> | undefined
  // Deliveries that were on their way when RabbitMQ was asked to stop have all come.
  #quiet = false
  #loss: Loss | undefined
  #closing: Promise<void> | undefined
  #onEnded: (reason: Error) => void = () => {}
  #onClosed: () => void = () => {}

  constructor(channel: RabbitmqChannel, settings: ConsumerSettings, accept: (delivery: ChannelDelivery) => void) {
    this.#channel = channel
    this.#settings = settings
    this.#accept = accept
    this.ended = new Promise((resolve) => {
      this.#onEnded = resolve
    })
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve
    })
    channel.on('error', (error) => {
      this.#failure = error
    })
    channel.on('close', () => this.#lose('lost'))
  }

  /** Consumes. What comes is told to `accept`, maybe before this resolves. Rejects if it was left or lost meanwhile. */
  async start(): Promise<void> {
    const { queue, declare, prefetch, runtime } = this.#settings
    try {
      if ((await declare?.(this.#channel)) === 'again') throw limitRefused(queue)
      await this.#channel.prefetch(prefetch)
      // There would be nobody to cancel it any more.
      if (this.#leaving !== undefined) throw channelClosed()
      const consumerTag = `ackord-${runtime.uuid()}`
      this.#consumerTag = consumerTag
      // Called by amqplib while it reads the socket: what it throws would end the connection.
      const onMessage = (native: RabbitmqMessage | null) => {
        if (native === null) this.#onEnded(cancelled(queue))
        else this.#deliver(native)
      }
      await this.#channel.consume(queue, onMessage, { consumerTag })
    } catch (error) {
      await this.close('lost')
      throw error
    }
  }

  /** Whether the delivery can still be settled. */
  holds(delivery: ChannelDelivery): boolean {
    return this.#unsettled.has(delivery)
  }

  /** Throws if the channel is gone: RabbitMQ delivers the message again. */
  ack(delivery: ChannelDelivery): void {
    this.#settle(delivery, () => this.#channel.ack(delivery.native, false))
  }

  /** RabbitMQ cannot wait before it delivers again, so we do, and keep the message meanwhile: whatever happens to us, it is not lost. Throws as `ack` does. */
  requeue(delivery: ChannelDelivery, delay: number): void {
    this.#checkOpen()
    if (delay === 0 || this.#leaving !== undefined) {
      this.#settle(delivery, () => this.#channel.nack(delivery.native, false, true))
      return
    }
    const { runtime, maxDelay } = this.#settings
    delivery.hold = runtime.setTimeout(() => this.#requeueNow(delivery), Math.min(delay, maxDelay), { keepAlive: false })
  }

  /** Consumes no more and gives back what was not yielded, or waits to be delivered again. The channel closes with the last settlement. Idempotent. */
  leave(): Promise<void> {
    this.#leaving ??= this.#leave()
    return this.#leaving
  }

  /** Has RabbitMQ deliver again what is not settled. Idempotent. */
  close(loss: Loss): Promise<void> {
    this.#lose(loss)
    this.#closing ??= settledWithin(this.#settings.runtime, answerTimeout, this.#channel.close())
    return this.#closing
  }

  #deliver(native: RabbitmqMessage): void {
    const delivery: ChannelDelivery = { native, consumer: this, yielded: false, hold: undefined }
    this.#unsettled.add(delivery)
    if (this.#leaving === undefined) this.#accept(delivery)
    else this.#requeueNow(delivery)
  }

  async #leave(): Promise<void> {
    // Sent before the nacks, so that what goes back does not come here again.
    const cancelling = this.#consumerTag === undefined ? Promise.resolve() : this.#channel.cancel(this.#consumerTag)
    for (const delivery of [...this.#unsettled]) {
      if (!delivery.yielded || delivery.hold !== undefined) this.#requeueNow(delivery)
    }
    await settledWithin(this.#settings.runtime, answerTimeout, cancelling)
    this.#quiet = true
    await this.#closeIfDone()
  }

  #requeueNow(delivery: ChannelDelivery): void {
    try {
      this.#settle(delivery, () => this.#channel.nack(delivery.native, false, true))
    } catch {
      // The channel is gone, and with that the message goes back.
    }
  }

  #settle(delivery: ChannelDelivery, send: () => void): void {
    this.#checkOpen()
    try {
      send()
    } catch (cause) {
      throw lossError('lost', cause)
    }
    delivery.hold?.cancel()
    this.#unsettled.delete(delivery)
    void this.#closeIfDone()
  }

  async #closeIfDone(): Promise<void> {
    if (this.#quiet && this.#unsettled.size === 0) await this.close('disposed')
  }

  #checkOpen(): void {
    if (this.#loss !== undefined) throw lossError(this.#loss, this.#failure)
  }

  #lose(loss: Loss): void {
    if (this.#loss !== undefined) return
    this.#loss = loss
    for (const { hold } of this.#unsettled) hold?.cancel()
    this.#unsettled.clear()
    this.#onEnded(this.#failure ?? channelClosed())
    this.#onClosed()
  }
}

/** Why nothing can be settled on the channel. */
type Loss = 'lost' | 'disposed'

function lossError(loss: Loss, cause: unknown): AckordError {
  const options = cause === undefined ? {} : { cause }
  if (loss === 'lost') {
    const text =
      'The channel to RabbitMQ was lost before the message was settled; it is delivered again, and the late verdict has no effect.'
    return new AckordError('ACKORD_LEASE_LOST', text, options)
  }
  const text =
    'The source was disposed before the message was settled; it is delivered again, and the late verdict has no effect. Settle what was yielded before disposing the source.'
  return new AckordError('ACKORD_SHUTDOWN', text, options)
}

function cancelled(queue: string): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', `RabbitMQ cancelled the consumer of queue '${queue}': the queue was deleted or has moved.`)
}

function limitRefused(queue: string): AckordError {
  const text = `Queue '${queue}' was made without 'x-delivery-limit': -1, so RabbitMQ drops what was delivered too often. Set a policy with "delivery-limit": -1, or make the queue anew.`
  return new AckordError('ACKORD_SOURCE_FAILED', text)
}

function channelClosed(): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', 'The channel to RabbitMQ was closed.')
}
