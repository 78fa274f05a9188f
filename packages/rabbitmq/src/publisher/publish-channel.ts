import type { PublishResult } from '@ackord/core'
import { abortable } from '@ackord/core/internal'
import type { RabbitmqConfirmChannel, RabbitmqMessage, RabbitmqProperties } from '../client.ts'
import { type Envelope, nacked, unconfirmed, unencodable, unroutable } from './publish-failures.ts'

/** What is sent for one message, and where its result goes. */
export interface Outgoing extends Envelope {
  readonly properties: RabbitmqProperties
  /** The first result counts: a confirm after an abort is nobody's business any more. */
  readonly settle: (result: PublishResult) => void
}

export interface PublishChannelSettings {
  readonly mandatory: boolean
  readonly persistent: boolean
  readonly unroutable: 'destination' | 'record'
  /** Told once that the channel is gone. */
  readonly onClosed: () => void
}

interface Unconfirmed {
  readonly outgoing: Outgoing
  returned: boolean
}

const ok: PublishResult = { ok: true }
// Tells which message came back. Its id cannot: two copies of one message may be on their way.
const keyHeader = 'x-ackord-key'

/** A channel with publisher confirms. Several calls may use it at once, because each message is waited for on its own. */
export class PublishChannel {
  readonly #channel: RabbitmqConfirmChannel
  readonly #settings: PublishChannelSettings
  readonly #unconfirmed = new Map<number, Unconfirmed>()
  #key = 0
  #closed = false
  #failure: unknown
  // There while amqplib's buffer is full.
  #room: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined

  constructor(channel: RabbitmqConfirmChannel, settings: PublishChannelSettings) {
    this.#channel = channel
    this.#settings = settings
    channel.on('error', (error) => {
      this.#failure = error
    })
    // Before amqplib's own listener, which calls back as it does for a nack.
    channel.prependListener('close', () => this.#lose())
    channel.on('drain', () => this.#drained())
    channel.on('return', (message) => this.#returned(message))
  }

  /** Sends them as fast as the socket takes them, without waiting for confirms; stops when the signal is aborted. Never rejects. */
  async send(messages: readonly Outgoing[], signal: AbortSignal): Promise<void> {
    for (const outgoing of messages) {
      // A loop, because others wait for room too.
      while (this.#room !== undefined && !signal.aborted) await abortable(this.#room.promise, signal).catch(() => {})
      if (signal.aborted) return
      this.#send(outgoing)
    }
  }

  /** What is not confirmed by now fails. */
  async close(): Promise<void> {
    this.#lose()
    await this.#channel.close()
  }

  #send(outgoing: Outgoing): void {
    if (this.#closed) {
      outgoing.settle(unconfirmed(outgoing, this.#failure))
      return
    }
    const { mandatory, persistent } = this.#settings
    const { exchange, routingKey, body, properties } = outgoing
    this.#key += 1
    const key = this.#key
    const headers = mandatory ? { ...properties.headers, [keyHeader]: key } : properties.headers
    let room: boolean
    try {
      room = this.#channel.publish(exchange, routingKey, body, { ...properties, headers, mandatory, persistent }, (error) =>
        this.#confirmed(key, error),
      )
    } catch (error) {
      // amqplib encodes before it sends, and complains with these two.
      if (error instanceof TypeError || error instanceof RangeError) {
        outgoing.settle(unencodable(outgoing, error))
        return
      }
      outgoing.settle(unconfirmed(outgoing, error))
      // It is closed, maybe since before we listened.
      this.#lose()
      return
    }
    this.#unconfirmed.set(key, { outgoing, returned: false })
    if (!room) this.#room ??= withResolve()
  }

  /** RabbitMQ sends a message back before it confirms it. */
  #returned(message: Pick<RabbitmqMessage, 'properties'>): void {
    const sent = this.#unconfirmed.get(Number(message.properties.headers?.[keyHeader]))
    if (sent !== undefined) sent.returned = true
  }

  #confirmed(key: number, error: unknown): void {
    const sent = this.#unconfirmed.get(key)
    if (sent === undefined) return
    this.#unconfirmed.delete(key)
    const { outgoing, returned } = sent
    if (error !== null) outgoing.settle(nacked(outgoing))
    else outgoing.settle(returned ? unroutable(outgoing, this.#settings.unroutable) : ok)
  }

  #drained(): void {
    this.#room?.resolve()
    this.#room = undefined
  }

  #lose(): void {
    if (this.#closed) return
    this.#closed = true
    for (const { outgoing } of this.#unconfirmed.values()) outgoing.settle(unconfirmed(outgoing, this.#failure))
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
