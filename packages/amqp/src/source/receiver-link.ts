import { AckordError, type Runtime, type Timer } from '@ackord/core'
import { KeyQueues, leaseLostError, type SourceSession, sourceDisposedError } from '@ackord/core/broker'
import { answerTimeout, settledWithin } from '@ackord/core/internal'
import type { AmqpConnection, AmqpDelivery, AmqpMessage, AmqpReceiver } from '../client.ts'
import { type ConditionError, conditionOf, errorOf, toConditionError } from '../conditions.ts'
import { OwnLink, sessionCapacity } from '../own-link.ts'
import { Dispositions, type Verdict } from './dispositions.ts'

export interface ReceiverSettings {
  readonly prefetch: number
  readonly maxDelay: number
  /** Milliseconds within which the broker must confirm an outcome. */
  readonly settleTimeout: number
  readonly filter: Readonly<Record<string, unknown>> | undefined
  /** The key whose messages take turns. `undefined`: there is no such order. */
  readonly keyOf: ((native: AmqpMessage) => string | undefined) | undefined
  readonly runtime: Runtime
}

/** Behaviour of the broker that the link relies on. */
export interface BrokerTraits {
  readonly address: string
  /**
   * The settlement mode to attach with. In mode `second` a broker confirms outcomes. RabbitMQ refuses that mode, and yet confirms outcomes that are sent unsettled: `confirmed-first`.
   */
  readonly mode: 'second' | 'confirmed-first'
  /** Whether the broker delays a message that is returned with a delivery time. Otherwise it waits in this process. */
  readonly delays: boolean
}

/** One delivery of a message. It refers to its link, because only that can settle it. */
export interface LinkDelivery {
  readonly native: AmqpMessage
  readonly delivery: AmqpDelivery
  readonly link: ReceiverLink
  readonly key: string | undefined
  /** How often it was handed out before, on this link, without being returned to the broker. */
  readonly repeats: number
  /** Whether it was handed out, so that its handler settles it. */
  yielded: boolean
  /** Set while the delay of a nack is running. */
  hold: Timer | undefined
  /** With which it was nacked, if it waits here for its next turn. */
  verdict: Verdict | undefined
}

interface Settling {
  readonly resolve: () => void
  readonly reject: (error: Error) => void
  readonly timer: Timer
}

/**
 * One receiver, whose credit keeps the number of unsettled messages at `prefetch` or below.
 *
 *     receiving ─ leave() ─▶ leaving: no more messages come, those that were handed out can be settled ─ all are settled ─▶ closed
 *     receiving, leaving ─ link or connection lost, no confirmation in time, or close() ─▶ closed: the broker delivers unsettled messages again
 */
export class ReceiverLink implements SourceSession {
  /** Resolves, with the reason, when no more messages come. */
  readonly ended: Promise<Error>
  /** Resolves when no message can be settled any more. */
  readonly closed: Promise<void>
  readonly #connection: AmqpConnection
  readonly #settings: ReceiverSettings
  readonly #traits: BrokerTraits
  readonly #accept: (delivery: LinkDelivery) => void
  readonly #keys = new KeyQueues<LinkDelivery>()
  // In the order of their deliveries.
  readonly #unsettled = new Set<LinkDelivery>()
  readonly #settling = new Map<AmqpDelivery, Settling>()
  #own: OwnLink<AmqpReceiver> | undefined
  #dispositions: Dispositions
  #isConfirmed = true
  #isAttaching = false
  #leaving: Promise<void> | undefined
  // Whether messages that still come are returned at once.
  #isReturning = false
  // Whether the credit is taken back, and nothing is left that was not handed out, except what is returned when the link closes.
  #quiet = false
  // Came while the link was being closed.
  readonly #late: LinkDelivery[] = []
  #drained: Promise<void> | undefined
  #loss: { readonly kind: 'lost' | 'disposed'; readonly cause: Error | undefined } | undefined
  #closing: Promise<void> | undefined
  #onDrained: () => void = () => {}
  #onEnded: (reason: Error) => void = () => {}
  #onClosed: () => void = () => {}

  constructor(connection: AmqpConnection, traits: BrokerTraits, settings: ReceiverSettings, accept: (delivery: LinkDelivery) => void) {
    this.#connection = connection
    this.#settings = settings
    this.#traits = traits
    this.#accept = accept
    this.#dispositions = new Dispositions(connection.container, false)
    this.ended = new Promise((resolve) => {
      this.#onEnded = resolve
    })
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve
    })
  }

  /** Attaches the link, and gives the broker credit. Rejects if the link was left or refused. */
  async start(): Promise<void> {
    const { mode } = this.#traits
    try {
      if (this.#leaving !== undefined) throw linkClosed()
      try {
        await this.#attach(mode === 'second' ? 1 : 0)
      } catch (error) {
        if (mode !== 'second' || conditionOf(error) !== 'amqp:not-implemented') throw error
        await this.#attachUnconfirmed()
      }
      // A broker may answer that it does not know the mode.
      if (mode === 'second' && this.#isConfirmed && this.#own?.link.rcv_settle_mode !== 1) await this.#attachUnconfirmed()
      if (this.#leaving !== undefined) throw linkClosed()
      this.#own?.link.add_credit(this.#settings.prefetch)
    } catch (error) {
      await this.#closeAs('lost', error instanceof Error ? error : undefined)
      throw error
    }
  }

  /** Whether the delivery can still be settled. */
  holds(delivery: LinkDelivery): boolean {
    return this.#unsettled.has(delivery)
  }

  /** Resolves when the broker has confirmed the outcome. Rejects if the link is lost before, or if the broker refuses: the message may come again. */
  async settle(delivery: LinkDelivery, verdict: Verdict): Promise<void> {
    this.#checkOpen()
    if (!this.#unsettled.delete(delivery)) return
    delivery.hold?.cancel()
    delivery.hold = undefined
    try {
      await this.#send(delivery.delivery, verdict)
    } finally {
      this.#settled(delivery)
    }
  }

  /**
   * Returns the message to the broker, after the delay. Unless the broker delays it, it waits in this process and counts towards the prefetch. Where keys take turns, it is handed
   * out again from here, and the later messages of its key wait. After `leave()` it is returned together with them: alone, it could be delivered to this link again, behind them.
   */
  async requeue(delivery: LinkDelivery, delay: number, verdict: Verdict): Promise<void> {
    this.#checkOpen()
    const { maxDelay, keyOf, runtime } = this.#settings
    const shortened = Math.min(delay, maxDelay)
    if (keyOf !== undefined && delivery.key !== undefined) {
      delivery.verdict = verdict
      this.#hold(delivery, shortened, () => this.#repeat(delivery))
      return await this.#closeIfDone()
    }
    if (this.#leaving !== undefined) return await this.settle(delivery, verdict)
    if (shortened === 0) return await this.settle(delivery, verdict)
    if (this.#traits.delays && verdict.outcome === 'failed') {
      // biome-ignore lint/plugin: the broker compares the instant with its own clock.
      return await this.settle(delivery, { outcome: 'failed', deliverAt: runtime.now() + shortened })
    }
    this.#hold(delivery, shortened, () => this.#settleQuietly(delivery, verdict))
  }

  /**
   * Takes the credit back and returns the messages that were not handed out, or whose delay is running. Where keys take turns, these are returned last, in their order: some
   * queues put what is returned behind what was returned before. Closes when the last message is settled. Idempotent.
   */
  leave(): Promise<void> {
    this.#leaving ??= this.#leave()
    return this.#leaving
  }

  /** Returns unsettled messages, and ends the session. Idempotent. */
  close(): Promise<void> {
    return this.#closeAs('disposed', undefined)
  }

  async #attachUnconfirmed(): Promise<void> {
    const refused = this.#own
    this.#own = undefined
    await refused?.close()
    this.#isConfirmed = false
    this.#dispositions = new Dispositions(this.#connection.container, true)
    await this.#attach(0)
  }

  async #attach(rcv_settle_mode: 0 | 1): Promise<void> {
    const { filter, runtime } = this.#settings
    const source = { address: this.#traits.address, ...(filter && { filter }) }
    const options = { source, snd_settle_mode: 0, rcv_settle_mode, autoaccept: false, credit_window: 0 } as const
    const own = new OwnLink(this.#connection, 'receiver', (session) => session.open_receiver(options), runtime)
    this.#own = own
    // Called by rhea while it reads the socket: an exception would end the connection.
    own.link.on('message', ({ delivery, message }) => this.#deliver(delivery as AmqpDelivery, message))
    own.link.on('settled', ({ delivery }) => this.#confirmed(delivery as AmqpDelivery))
    own.link.on('receiver_drained', () => this.#onDrained())
    void own.lost.then((error: ConditionError) => {
      if (this.#own === own && !this.#isAttaching) this.#lose('lost', error)
    })
    this.#isAttaching = true
    try {
      await own.opened()
    } finally {
      this.#isAttaching = false
    }
    // rhea counts deliveries from zero, and brokers from here: RabbitMQ 4.0 would take the difference for more credit.
    const { remote } = own.link
    own.link.delivery_count = remote?.attach?.initial_delivery_count ?? 0
  }

  #deliver(delivery: AmqpDelivery, message: unknown): void {
    this.#wrapCount()
    const native = nativeOf(message)
    const key = this.#settings.keyOf?.(native)
    const received: LinkDelivery = { native, delivery, link: this, key, repeats: 0, yielded: false, hold: undefined, verdict: undefined }
    if (this.#loss !== undefined) {
      this.#late.push(received)
      return
    }
    this.#unsettled.add(received)
    this.#endOldHold(delivery.id)
    if (this.#isReturning) this.#settleQuietly(received, { outcome: 'released' })
    else if (this.#leaving === undefined && (key === undefined || this.#keys.add(key, received))) this.#accept(received)
  }

  /** The count is an unsigned number of 32 bits, which rhea would exceed. */
  #wrapCount(): void {
    const link = this.#own?.link
    if (link?.delivery_count !== undefined && link.delivery_count >= 2 ** 32) link.delivery_count -= 2 ** 32
  }

  /** rhea's session is full when too many messages came after an unsettled one. One whose delay is running is returned early. */
  #endOldHold(latest: number): void {
    const [oldest] = this.#unsettled
    if (oldest?.hold !== undefined && latest - oldest.delivery.id > sessionCapacity / 2) this.#settleQuietly(oldest, { outcome: 'failed' })
  }

  #hold(delivery: LinkDelivery, delay: number, then: () => void): void {
    delivery.hold = this.#settings.runtime.setTimeout(then, delay, { keepAlive: false })
  }

  /** Hands the message out again, as another delivery. */
  #repeat(delivery: LinkDelivery): void {
    // After `leave()` it waits until the link is closed.
    if (this.#leaving !== undefined || !this.#unsettled.delete(delivery)) return
    const again: LinkDelivery = { ...delivery, repeats: delivery.repeats + 1, yielded: false, hold: undefined, verdict: undefined }
    this.#unsettled.add(again)
    this.#accept(again)
  }

  #settleQuietly(delivery: LinkDelivery, verdict: Verdict): void {
    // If the link is lost, the broker delivers the message again anyway.
    this.settle(delivery, verdict).catch(() => {})
  }

  async #send(delivery: AmqpDelivery, verdict: Verdict): Promise<void> {
    const { runtime, settleTimeout } = this.#settings
    if (!this.#isConfirmed) {
      this.#dispositions.send(delivery, verdict)
      return
    }
    await new Promise<void>((resolve, reject) => {
      const timer = runtime.setTimeout(() => void this.#closeAs('lost', notConfirmed(settleTimeout)), settleTimeout, { keepAlive: false })
      this.#settling.set(delivery, { resolve, reject, timer })
      this.#dispositions.send(delivery, verdict)
    })
  }

  #confirmed(delivery: AmqpDelivery): void {
    const settling = this.#settling.get(delivery)
    // rhea forgets the delivery when both sides have settled it; this sends nothing.
    delivery.update(true)
    if (settling === undefined) return
    this.#settling.delete(delivery)
    settling.timer.cancel()
    // Service Bus answers so when the lock of the message has expired.
    const refusal = errorOf(delivery.remote_state)
    if (refusal === undefined) settling.resolve()
    else
      settling.reject(
        leaseLostError('The AMQP broker has refused the verdict on a message', toConditionError(refusal, 'no reason was given')),
      )
  }

  #settled({ key }: LinkDelivery): void {
    if (this.#leaving === undefined && this.#loss === undefined) {
      const next = key === undefined ? undefined : this.#keys.next(key)
      if (next !== undefined) this.#accept(next)
      this.#own?.link.add_credit(1)
    }
    void this.#closeIfDone()
  }

  async #leave(): Promise<void> {
    const { runtime, keyOf } = this.#settings
    // Before the messages are returned, so that they are not delivered here again.
    await this.#drain()
    if (this.#loss === undefined && keyOf === undefined) {
      this.#isReturning = true
      const returned = [...this.#unsettled].filter((delivery) => !isHandedOut(delivery))
      const returning = returned.map((delivery) => this.settle(delivery, returnOf(delivery)))
      await settledWithin(runtime, answerTimeout, Promise.allSettled(returning))
    }
    this.#quiet = true
    await this.#closeIfDone()
  }

  /** Takes the credit back. Resolves when the broker has answered, after a while at the latest. */
  #drain(): Promise<void> {
    this.#drained ??= this.#takeCreditBack()
    return this.#drained
  }

  async #takeCreditBack(): Promise<void> {
    const link = this.#own?.link
    if (link?.has_credit() !== true || this.#own?.isLost !== false) return
    const drained = new Promise<void>((resolve) => {
      this.#onDrained = resolve
    })
    link.drain_credit()
    await settledWithin(this.#settings.runtime, answerTimeout, Promise.race([drained, this.#own.lost]))
  }

  async #closeIfDone(): Promise<void> {
    if (this.#quiet && this.#settling.size === 0 && ![...this.#unsettled].some(isHandedOut)) await this.close()
  }

  #closeAs(kind: 'lost' | 'disposed', cause: Error | undefined): Promise<void> {
    this.#closing ??= this.#close(kind, cause)
    return this.#closing
  }

  async #close(kind: 'lost' | 'disposed', cause: Error | undefined): Promise<void> {
    // Some brokers keep the messages of a closed link until their lock expires, so all are returned.
    const unsettled = [...this.#unsettled]
    this.#lose(kind, cause)
    if (this.#own?.isLost === false) {
      await this.#drain()
      const returned = [...unsettled, ...this.#late].toSorted((one, other) => one.delivery.id - other.delivery.id)
      for (const delivery of returned) this.#dispositions.send(delivery.delivery, returnOf(delivery))
      await this.#dispositions.flush()
    }
    await this.#own?.close()
    this.#onClosed()
  }

  #checkOpen(): void {
    if (this.#loss !== undefined) throw lossError(this.#loss)
  }

  #lose(kind: 'lost' | 'disposed', cause: Error | undefined): void {
    if (this.#loss !== undefined) return
    this.#loss = { kind, cause }
    for (const { hold } of this.#unsettled) hold?.cancel()
    this.#unsettled.clear()
    this.#keys.clear()
    const error = lossError(this.#loss)
    for (const { reject, timer } of this.#settling.values()) {
      timer.cancel()
      reject(error)
    }
    this.#settling.clear()
    this.#onEnded(cause ?? linkClosed())
    if (kind === 'lost' && this.#own?.isLost === true) this.#onClosed()
  }
}

/** Whether a handler has the message, and will settle it. */
function isHandedOut({ yielded, hold }: LinkDelivery): boolean {
  return yielded && hold === undefined
}

/** The outcome of a message that is returned when the link closes. Without a verdict, one that was handed out counts as delivered. */
function returnOf({ verdict, yielded }: LinkDelivery): Verdict {
  return verdict ?? { outcome: yielded ? 'failed' : 'released' }
}

/** rhea does not decode a message whose format it does not know. */
function nativeOf(message: unknown): AmqpMessage {
  if (message instanceof Uint8Array) return { body: message }
  return typeof message === 'object' && message !== null ? message : {}
}

function lossError({ kind, cause }: { readonly kind: 'lost' | 'disposed'; readonly cause: Error | undefined }): AckordError {
  if (kind === 'disposed') return sourceDisposedError('the message', cause)
  return leaseLostError('The link to the AMQP broker was lost before it had confirmed the verdict on a message', cause)
}

function linkClosed(): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', 'The link to the AMQP broker was closed.')
}

function notConfirmed(timeout: number): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', `The AMQP broker did not confirm the verdict on a message within ${timeout} ms.`)
}
