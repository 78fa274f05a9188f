import { AckordError, type Runtime, type Timer } from '@ackord/core'
import { leaseLostError, type SourceSession, sourceDisposedError } from '@ackord/core/broker'
import { answerTimeout, settledWithin } from '@ackord/core/internal'
import { type CountHeader, countHeader, type RabbitmqChannel, type RabbitmqMessage, serverVersion } from '../client.ts'
import type { QueueDeclarer } from '../topology/declare-topology.ts'
import type { RetryQueues } from './retry-queues.ts'

export interface ConsumerSettings {
  readonly queue: string
  readonly declare: QueueDeclarer | undefined
  readonly prefetch: number
  readonly maxDelay: number
  /** Whether the queue was declared with a dead-letter exchange. */
  readonly deadLetters: boolean
  /** Where nacked messages wait once half of the prefetch waits in this process. `undefined`: all of them wait in this process. */
  readonly retries: RetryQueues | undefined
  readonly runtime: Runtime
}

/** One delivery of a message. It refers to its channel, because its delivery tag is valid only there. */
export interface ChannelDelivery {
  readonly native: RabbitmqMessage
  readonly consumer: ConsumerChannel
  /** Whether it was handed out, so that its handler settles it. */
  yielded: boolean
  /** Set while the delay of a nack is running. */
  hold: Timer | undefined
}

/**
 * One consumer on a channel of its own.
 *
 *     consuming ─ leave(), or RabbitMQ cancels ─▶ leaving: no more messages come, those that were handed out can be settled ─ all are settled ─▶ closed
 *     consuming, leaving ─ channel or connection lost, or close() ─▶ closed: RabbitMQ delivers unsettled messages again
 */
export class ConsumerChannel implements SourceSession {
  /** Resolves, with the reason, when no more messages come. */
  readonly ended: Promise<Error>
  /** Resolves when no message can be settled any more. */
  readonly closed: Promise<void>
  /** The header in which quorum queues of this server count deliveries. */
  readonly countHeader: CountHeader
  readonly #channel: RabbitmqChannel
  readonly #settings: ConsumerSettings
  readonly #accept: (delivery: ChannelDelivery) => void
  readonly #unsettled = new Set<ChannelDelivery>()
  // Chosen here, so that a consumer can be cancelled before RabbitMQ has answered. Set once the consumer was requested.
  #consumerTag: string | undefined
  #held = 0
  #failure: Error | undefined
  #leaving: Promise<void> | undefined
  // Whether all deliveries have arrived that were in flight when the consumer was cancelled.
  #quiet = false
  #loss: Loss | undefined
  #closing: Promise<void> | undefined
  #onEnded: (reason: Error) => void = () => {}
  #onClosed: () => void = () => {}

  constructor(channel: RabbitmqChannel, settings: ConsumerSettings, accept: (delivery: ChannelDelivery) => void) {
    this.countHeader = countHeader(serverVersion(channel))
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

  /** Begins to consume. Messages are passed to `accept`, maybe before this resolves. Rejects if the channel was left or lost meanwhile. */
  async start(): Promise<void> {
    const { queue, declare, prefetch, runtime } = this.#settings
    try {
      if ((await declare?.(this.#channel)) === 'again') throw limitRefused(queue)
      await this.#channel.prefetch(prefetch)
      // Nothing would cancel the consumer any more.
      if (this.#leaving !== undefined) throw channelClosed()
      const consumerTag = `ackord-${runtime.uuid()}`
      this.#consumerTag = consumerTag
      // Called by amqplib while it reads the socket: an exception would end the connection.
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

  /** Throws if the channel is closed: RabbitMQ delivers the message again. */
  ack(delivery: ChannelDelivery): void {
    this.#settle(delivery, () => this.#channel.ack(delivery.native, false))
  }

  /** Passes the message to the dead-letter exchange of the queue; `false` if the queue is not known to have one, because RabbitMQ would drop the message. */
  park(delivery: ChannelDelivery): boolean {
    if (!this.#settings.deadLetters) return false
    this.#settle(delivery, () => this.#channel.nack(delivery.native, false, false))
    return true
  }

  /**
   * RabbitMQ cannot delay a redelivery, so the message waits in this process. Waiting messages count towards the prefetch: past half of it, a message
   * waits in a retry queue instead, and is acked when RabbitMQ has confirmed the copy. Throws or rejects as `ack` does.
   */
  requeue(delivery: ChannelDelivery, delay: number, deliveries: number): void | Promise<void> {
    this.#checkOpen()
    if (delay === 0 || this.#leaving !== undefined) {
      this.#settle(delivery, () => this.#channel.nack(delivery.native, false, true))
      return
    }
    const { maxDelay, prefetch, retries } = this.#settings
    const shortened = Math.min(delay, maxDelay)
    const isFull = this.#held >= Math.max(1, Math.floor(prefetch / 2))
    if (isFull && retries?.isUsable === true) return this.#delayInRetryQueue(retries, delivery, shortened, deliveries)
    this.#hold(delivery, shortened)
  }

  /** Cancels the consumer and requeues the messages that were not handed out or whose delay is running. The channel closes when the last message is settled. Idempotent. */
  leave(): Promise<void> {
    this.#leaving ??= this.#leave()
    return this.#leaving
  }

  /** Closes the channel, so that RabbitMQ delivers unsettled messages again. Idempotent. */
  close(loss: Loss = 'disposed'): Promise<void> {
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
    // Sent before the nacks, so that requeued messages are not delivered here again.
    const cancelling = this.#consumerTag === undefined ? Promise.resolve() : this.#channel.cancel(this.#consumerTag)
    for (const delivery of [...this.#unsettled]) {
      if (!delivery.yielded || delivery.hold !== undefined) this.#requeueNow(delivery)
    }
    await settledWithin(this.#settings.runtime, answerTimeout, cancelling)
    this.#quiet = true
    await this.#closeIfDone()
  }

  async #delayInRetryQueue(retries: RetryQueues, delivery: ChannelDelivery, delay: number, deliveries: number): Promise<void> {
    if (await retries.publish(delivery.native, delay, deliveries)) {
      this.ack(delivery)
      return
    }
    this.#checkOpen()
    if (this.#leaving === undefined) this.#hold(delivery, delay)
    else this.#requeueNow(delivery)
  }

  #hold(delivery: ChannelDelivery, delay: number): void {
    this.#held += 1
    delivery.hold = this.#settings.runtime.setTimeout(() => this.#requeueNow(delivery), delay, { keepAlive: false })
  }

  #requeueNow(delivery: ChannelDelivery): void {
    try {
      this.#settle(delivery, () => this.#channel.nack(delivery.native, false, true))
    } catch {
      // The channel is closed, which requeues the message.
    }
  }

  #settle(delivery: ChannelDelivery, send: () => void): void {
    this.#checkOpen()
    try {
      send()
    } catch (cause) {
      throw lossError('lost', cause)
    }
    if (delivery.hold !== undefined) this.#held -= 1
    delivery.hold?.cancel()
    delivery.hold = undefined
    this.#unsettled.delete(delivery)
    void this.#closeIfDone()
  }

  async #closeIfDone(): Promise<void> {
    if (this.#quiet && this.#unsettled.size === 0) await this.close()
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

/** Why messages cannot be settled on the channel any more. */
type Loss = 'lost' | 'disposed'

function lossError(loss: Loss, cause: unknown): AckordError {
  if (loss === 'disposed') return sourceDisposedError('the message', cause)
  return leaseLostError('The channel to RabbitMQ was lost before the message was settled', cause)
}

function cancelled(queue: string): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', `RabbitMQ cancelled the consumer of queue '${queue}': the queue was deleted or has moved.`)
}

function limitRefused(queue: string): AckordError {
  const text = `Queue '${queue}' was created without 'x-delivery-limit': -1, so RabbitMQ drops messages that were delivered too often. Set a policy with "delivery-limit": -1, or create the queue again.`
  return new AckordError('ACKORD_SOURCE_FAILED', text)
}

function channelClosed(): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', 'The channel to RabbitMQ was closed.')
}
