import type { Attributes, Backoff, Logger, RawMessage, Runtime } from '@ackord/core'
import {
  type Connection,
  type Delivery,
  type IterationOwner,
  leaseLostError,
  PushedMessages,
  type ReconnectOptions,
  reconnect,
  rejectUnreadable,
  type SourceIteration,
  sourceDisposedError,
} from '@ackord/core/broker'
import { abortable } from '@ackord/core/internal'
import type { MqttClient, MqttPublish } from '../client.ts'
import type { ConnectionWatch } from '../connection-watch.ts'
import type { HeldMessage } from './held-messages.ts'
import { binaryAttributes, bytesOf, type ReadMessage, readMessage } from './read-message.ts'
import { connectionOver, endsSource, LowQos, subscribingFailed } from './source-errors.ts'
import type { Receiving, Subscription } from './subscription.ts'

export interface IterationSettings {
  readonly client: MqttClient
  readonly watch: ConnectionWatch
  readonly subscription: Subscription
  readonly prefetch: number
  readonly maxDelay: number
  readonly attributes: ((native: MqttPublish) => Attributes) | undefined
  readonly backoff: Backoff
  readonly runtime: Runtime
  readonly logger: Logger
  readonly receive: (delivery: Delivery) => RawMessage
}

/** One iteration: it subscribes at the first `next()`, and again whenever the client has connected. */
export class MqttIteration implements SourceIteration, Receiving {
  readonly messages: PushedMessages<HeldMessage>
  readonly #settings: IterationSettings
  readonly #owner: IterationOwner
  readonly #held = new Set<HeldMessage>()

  constructor(settings: IterationSettings, signal: AbortSignal, owner: IterationOwner) {
    this.#settings = settings
    this.#owner = owner
    this.messages = new PushedMessages<HeldMessage>(
      {
        start: () => this.#start(),
        messageOf: (held) => this.#messageOf(held),
        leave: async () => this.#leave(),
        isDisposed: () => owner.disposed,
      },
      signal,
    )
  }

  get room(): number {
    return this.#settings.prefetch - this.#held.size
  }

  accept(held: HeldMessage): void {
    held.holder = this
    this.#held.add(held)
    this.messages.push(held)
  }

  /** Ends the iteration. Unsettled messages wait for another iteration of the client; if there is none, the broker delivers them to the next connection of the session. */
  async dispose(): Promise<void> {
    await this.messages.end()
    for (const held of [...this.#held]) this.#putBack(held)
  }

  #start(): void {
    this.#owner.started(this)
    reconnect(() => this.#connect(), this.#reconnectOptions(), this.messages.ending).catch((error: unknown) => this.messages.fail(error))
  }

  #reconnectOptions(): ReconnectOptions {
    const { watch, subscription, runtime, backoff, logger } = this.#settings
    const { filter } = subscription
    return {
      runtime,
      backoff,
      logger,
      fields: { subscription: filter },
      lost: 'The subscription is not read: the connection to the MQTT broker was lost. The client connects again.',
      restored: 'The subscription is read again.',
      fatalError: (reason, { opening }) => {
        if (watch.over !== undefined) return connectionOver(filter, watch.over.cause)
        return opening && endsSource(reason) ? subscribingFailed(filter, reason) : undefined
      },
    }
  }

  async #connect(): Promise<Connection> {
    const { watch, subscription, client, logger } = this.#settings
    const signal = this.messages.ending
    await watch.settled(signal)
    signal.throwIfAborted()
    if (watch.over !== undefined) throw new Error('The client is closed')
    if (watch.sessionPresent === false && watch.connections > 1) {
      logger.warn({ clientId: client.options.clientId, subscription: subscription.filter }, sessionLost)
    }
    await abortable(this.#subscribe(), signal)
    subscription.attach(this)
    return { ended: watch.lost(signal).then(() => new Error('The connection to the MQTT broker was lost')) }
  }

  /** Also with a session that has the subscription: only the broker knows. The client sends it because of `resubscribe`. */
  async #subscribe(): Promise<void> {
    const { client, subscription } = this.#settings
    const { filter } = subscription
    const subscriptions = Object.assign({ [filter]: { qos: 1 as const, rh: 2 } }, { resubscribe: true })
    await new Promise<void>((resolve, reject) => {
      client.subscribe(subscriptions, {}, (error, granted) => {
        const qos = granted?.[0]?.qos ?? 1
        if (error !== null && error !== undefined) reject(error)
        else if (qos === 1) resolve()
        else reject(new LowQos(`the broker grants QoS ${qos}, and QoS 1 is needed: messages are not acknowledged otherwise.`))
      })
    })
  }

  #messageOf(held: HeldMessage): RawMessage | undefined {
    const { subscription, logger } = this.#settings
    if (held.holder !== this) return undefined
    held.yielded = true
    held.deliveries += 1
    try {
      return this.#message(held, this.#read(held))
    } catch (cause) {
      const message = this.#message(held, { data: bytesOf(held.packet), attributes: binaryAttributes(held.packet) })
      const fields = { subscription: subscription.filter, topic: held.packet.topic }
      rejectUnreadable(message, `A message of topic '${held.packet.topic}'`, cause, { logger, fields })
      return undefined
    }
  }

  #read({ packet, arrivedAt }: HeldMessage): ReadMessage {
    const { attributes } = this.#settings
    return attributes === undefined ? readMessage(packet, arrivedAt) : { data: bytesOf(packet), attributes: attributes(packet) }
  }

  #message(held: HeldMessage, content: ReadMessage): RawMessage {
    const { maxDelay } = this.#settings
    return this.#settings.receive({
      ...content,
      deliveryCount: held.deliveries,
      origin: held.packet.topic,
      ack: () => this.#ack(held),
      nack: (_error, { retryAfter = 0 }) => {
        this.#checkHeld(held)
        this.#putBack(held, Math.min(retryAfter, maxDelay))
      },
    })
  }

  #ack(held: HeldMessage): void {
    const { subscription } = this.#settings
    this.#checkHeld(held)
    subscription.settle(held)
    this.#free(held)
  }

  #putBack(held: HeldMessage, delay = 0): void {
    // First the place in this iteration, which may get the message again.
    this.#held.delete(held)
    this.#settings.subscription.putBack(held, delay)
    this.#free(held)
  }

  #free(held: HeldMessage): void {
    this.#held.delete(held)
    if (this.messages.ending.aborted) this.#finishIfDone()
    else this.#settings.subscription.distribute()
  }

  #checkHeld(held: HeldMessage): void {
    if (this.#owner.disposed) throw sourceDisposedError('the message')
    const { watch } = this.#settings
    if (held.holder !== this || watch.over !== undefined) {
      throw leaseLostError('The client was closed before the message was settled', watch.over?.cause)
    }
  }

  #leave(): void {
    this.#settings.subscription.detach(this)
    for (const held of [...this.#held]) if (!held.yielded) this.#putBack(held)
    this.#finishIfDone()
  }

  #finishIfDone(): void {
    if (this.#held.size === 0) this.#owner.finished(this)
  }
}

const sessionLost =
  'The MQTT broker has no session of this client: it has expired, or the broker has lost it. Messages that were waiting in it are lost; those that have arrived are handled.'
