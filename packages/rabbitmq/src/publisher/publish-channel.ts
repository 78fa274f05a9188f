import type { PublishResult } from '@ackord/core'
import { type Outgoing, unwritableFailure } from '@ackord/core/broker'
import { abortable } from '@ackord/core/internal'
import type { RabbitmqConfirmChannel, RabbitmqMessage } from '../client.ts'
import { type Envelope, nacked, targetOf, unconfirmed, unroutable } from './publish-failures.ts'

export interface PublishChannelSettings {
  readonly mandatory: boolean
  readonly persistent: boolean
  readonly unroutable: 'destination' | 'record'
  /** Called once, when the channel is closed. */
  readonly onClosed: () => void
}

interface Unconfirmed {
  readonly outgoing: Outgoing<Envelope>
  returned: boolean
}

const ok: PublishResult = { ok: true }
// Identifies a message that RabbitMQ returns. Its id cannot: two copies of one message may be in flight.
const keyHeader = 'x-ackord-key'

/** A channel with publisher confirms. Several calls may use it at once, because each message has its own confirm. */
export class PublishChannel {
  readonly #channel: RabbitmqConfirmChannel
  readonly #settings: PublishChannelSettings
  readonly #unconfirmed = new Map<number, Unconfirmed>()
  #key = 0
  #closed = false
  #failure: unknown
  // Set while amqplib's buffer is full.
  #room: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined

  constructor(channel: RabbitmqConfirmChannel, settings: PublishChannelSettings) {
    this.#channel = channel
    this.#settings = settings
    channel.on('error', (error) => {
      this.#failure = error
    })
    // Before amqplib's own listener, which calls the callbacks of unconfirmed messages as it does for a nack.
    channel.prependListener('close', () => this.#onClose())
    channel.on('drain', () => this.#drained())
    channel.on('return', (message) => this.#returned(message))
  }

  /** Sends the messages as fast as the socket accepts them, without waiting for confirms; stops when the signal is aborted. Never rejects. */
  async send(messages: readonly Outgoing<Envelope>[], signal: AbortSignal): Promise<void> {
    for (const outgoing of messages) {
      // A loop, because other calls wait for room too.
      while (this.#room !== undefined && !signal.aborted) await abortable(this.#room.promise, signal).catch(() => {})
      if (signal.aborted) return
      this.#send(outgoing)
    }
  }

  /** Messages that are not confirmed by now fail. */
  async close(): Promise<void> {
    this.#onClose()
    await this.#channel.close()
  }

  #send(outgoing: Outgoing<Envelope>): void {
    const { item } = outgoing
    if (this.#closed) {
      outgoing.settle(unconfirmed(item, this.#failure))
      return
    }
    const { mandatory, persistent } = this.#settings
    const { exchange, routingKey, body, properties } = item
    this.#key += 1
    const key = this.#key
    const headers = mandatory ? { ...properties.headers, [keyHeader]: key } : properties.headers
    let room: boolean
    try {
      room = this.#channel.publish(exchange, routingKey, body, { ...properties, headers, mandatory, persistent }, (error) =>
        this.#confirmed(key, error),
      )
    } catch (error) {
      // amqplib encodes before it sends, and throws one of these for what AMQP has no room for: attributes of more than 64 kB, a name or routing key of more than 255 bytes.
      if (error instanceof TypeError || error instanceof RangeError) {
        outgoing.settle(unwritableFailure('RabbitMQ', targetOf(item), error))
        return
      }
      outgoing.settle(unconfirmed(item, error))
      // The channel is closed, maybe since before the listeners were added.
      this.#onClose()
      return
    }
    this.#unconfirmed.set(key, { outgoing, returned: false })
    if (!room) this.#room ??= withResolve()
  }

  /** RabbitMQ returns a message before it confirms it. */
  #returned(message: Pick<RabbitmqMessage, 'properties'>): void {
    const sent = this.#unconfirmed.get(Number(message.properties.headers?.[keyHeader]))
    if (sent !== undefined) sent.returned = true
  }

  #confirmed(key: number, error: unknown): void {
    const sent = this.#unconfirmed.get(key)
    if (sent === undefined) return
    this.#unconfirmed.delete(key)
    const { outgoing, returned } = sent
    if (error !== null) outgoing.settle(nacked(outgoing.item))
    else outgoing.settle(returned ? unroutable(outgoing.item, this.#settings.unroutable) : ok)
  }

  #drained(): void {
    this.#room?.resolve()
    this.#room = undefined
  }

  #onClose(): void {
    if (this.#closed) return
    this.#closed = true
    for (const { outgoing } of this.#unconfirmed.values()) outgoing.settle(unconfirmed(outgoing.item, this.#failure))
    this.#unconfirmed.clear()
    this.#drained()
    this.#settings.onClosed()
  }
}

function withResolve(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve: () => void = () => {}
  const promise = new Promise<void>((onResolve) => {
    resolve = onResolve
  })
  return { promise, resolve }
}
