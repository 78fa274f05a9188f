import type { AckordError, Runtime, Timer } from '@ackord/core'
import { leaseLostError, sourceDisposedError } from '@ackord/core/broker'
import { answerTimeout } from '@ackord/core/internal'
import type { NatsConnection } from '../client.ts'
import type { ConnectionWatch } from '../connection-watch.ts'
import { nanoseconds } from '../jetstream-api.ts'
import type { ReadMessage, StreamDelivery } from './read-message.ts'

export interface HeldMessagesSettings {
  readonly connection: NatsConnection
  readonly watch: ConnectionWatch
  readonly runtime: Runtime
  /** Called when a message is settled or lost. */
  readonly onFreed: (held: HeldMessage) => void
}

/**
 * The unsettled messages. While they are held, progress is reported to JetStream three times within the consumer's `ack_wait`, so that they are
 * not delivered again. A verdict is valid on any connection: while there is none, it waits for up to five seconds.
 */
export class HeldMessages {
  readonly #settings: HeldMessagesSettings
  readonly #held = new Map<string, HeldMessage>()
  readonly #sent: SentVerdicts
  readonly #disposing = new AbortController()
  #ackWait = 30_000
  #beat: Timer | undefined

  constructor(settings: HeldMessagesSettings) {
    this.#settings = settings
    this.#sent = new SentVerdicts(settings.connection, settings.watch, settings.runtime)
  }

  get size(): number {
    return this.#held.size
  }

  [Symbol.iterator](): IterableIterator<HeldMessage> {
    return this.#held.values()
  }

  /** The consumer's `ack_wait` in milliseconds. */
  set ackWait(ackWait: number) {
    this.#ackWait = ackWait
  }

  /** `undefined` for a message that is held already: it was delivered again because no progress report got through, and its handler still has it. */
  add(delivery: StreamDelivery): HeldMessage | undefined {
    const before = this.#held.get(delivery.identity)
    if (before !== undefined) {
      before.delivery = delivery
      before.deliveries = Math.max(before.deliveries, delivery.deliveryCount)
      return undefined
    }
    const held: HeldMessage = {
      delivery,
      deliveries: delivery.deliveryCount,
      yielded: false,
      hold: undefined,
      content: undefined,
      loss: undefined,
    }
    this.#held.set(delivery.identity, held)
    if (this.#beat === undefined) this.#schedule()
    return held
  }

  has(held: HeldMessage): boolean {
    return this.#held.get(held.delivery.identity) === held
  }

  ack(held: HeldMessage): void | Promise<void> {
    return this.#settle(held, acked)
  }

  terminate(held: HeldMessage): void | Promise<void> {
    return this.#settle(held, terminated)
  }

  /** JetStream delivers the message again after so many milliseconds, to any reader of the consumer. */
  nack(held: HeldMessage, delay: number): void | Promise<void> {
    const verdict = delay > 0 ? utf8.encode(`-NAK ${JSON.stringify({ delay: Math.ceil(delay) * nanoseconds })}`) : nacked
    return this.#settle(held, verdict)
  }

  /** Makes JetStream deliver the message again at once, if there is a connection. Never throws. */
  giveBack(held: HeldMessage): void {
    this.#remove(held)
    this.#report(held, nacked)
  }

  /** Throws if the message cannot be settled any more. */
  checkHeld(held: HeldMessage): void {
    if (held.loss === 'disposed') throw disposedError(held)
  }

  /** Sends the verdicts that wait for the end of the turn of the event loop. */
  sendVerdicts(): void {
    this.#sent.sendNow()
  }

  /** Reports progress on all held messages at once. */
  beat(): void {
    for (const held of this.#held.values()) this.#report(held, working)
  }

  /** Refuses verdicts from now on, also those that wait for a connection. The held messages must be returned. */
  refuse(): void {
    for (const held of this.#held.values()) held.loss = 'disposed'
    this.#disposing.abort()
  }

  // No promise while there is a connection: nothing is allocated for the usual ack.
  #settle(held: HeldMessage, verdict: Uint8Array): void | Promise<void> {
    this.checkHeld(held)
    if (!this.#settings.watch.isUp) return this.#settleLater(held, verdict)
    this.#send(held, verdict)
    this.#remove(held)
  }

  async #settleLater(held: HeldMessage, verdict: Uint8Array): Promise<void> {
    const { watch, runtime } = this.#settings
    const limit = new AbortController()
    const timer = runtime.setTimeout(() => limit.abort(), answerTimeout)
    await watch.settled(AbortSignal.any([limit.signal, this.#disposing.signal]))
    timer.cancel()
    this.checkHeld(held)
    this.#remove(held)
    if (!watch.isUp) throw lossError(held, watch.over?.cause)
    this.#send(held, verdict)
  }

  /** A nack is not sent again: by then another consumer may have the message, and it would be delivered once more. Without a nack it is delivered again after `ack_wait`. */
  #send({ delivery }: HeldMessage, verdict: Uint8Array): void {
    if (verdict === acked || verdict === terminated) this.#sent.send(delivery.reply, verdict)
    else this.#settings.connection.publish(delivery.reply, verdict)
  }

  #remove(held: HeldMessage): void {
    held.hold?.cancel()
    held.hold = undefined
    if (!this.has(held)) return
    this.#held.delete(held.delivery.identity)
    if (this.#held.size === 0) {
      this.#beat?.cancel()
      this.#beat = undefined
    }
    this.#settings.onFreed(held)
  }

  #schedule(): void {
    this.#beat = this.#settings.runtime.setTimeout(
      () => {
        this.beat()
        this.#schedule()
      },
      this.#ackWait / 3,
      { keepAlive: false },
    )
  }

  #report(held: HeldMessage, what: Uint8Array): void {
    if (!this.#settings.watch.isUp) return
    try {
      this.#settings.connection.publish(held.delivery.reply, what)
    } catch {
      // The connection is being closed: the message is delivered again after `ack_wait`.
    }
  }
}

const utf8 = new TextEncoder()
const acked = utf8.encode('+ACK')
const nacked = utf8.encode('-NAK')
const working = utf8.encode('+WPI')
const terminated = utf8.encode('+TERM')

/** A message that was delivered here and is not settled. */
export interface HeldMessage {
  /** Its last delivery. */
  delivery: StreamDelivery
  /** The number of deliveries, this one included. It also grows when a nacked message stays in this process. */
  deliveries: number
  /** Whether it was handed out, so that its handler settles it. */
  yielded: boolean
  /** Set while a nacked message stays in this process for its delay. */
  hold: Timer | undefined
  /** Its content, once it was read; an error if it cannot be read. */
  content: ReadMessage | { readonly error: unknown } | undefined
  /** Why it cannot be settled any more. */
  loss: 'disposed' | undefined
}

function lossError({ delivery }: HeldMessage, cause?: unknown): AckordError {
  return leaseLostError(`There was no connection to NATS to settle message ${delivery.sequence} of stream '${delivery.stream}'`, cause)
}

function disposedError({ delivery }: HeldMessage): AckordError {
  return sourceDisposedError(`message ${delivery.sequence} of stream '${delivery.stream}'`)
}

interface SentVerdict {
  readonly reply: string
  readonly verdict: Uint8Array
}

/**
 * Final verdicts: acks and terminations. Those of one turn of the event loop are sent together: one by one, each would be a write to the socket, which costs more than everything else.
 *
 * Verdicts since the last round trip are kept, because NATS does not confirm them: if they were lost with the connection, their messages would be delivered
 * again after `ack_wait`. They are sent once more when the connection is restored; JetStream ignores those that it already has.
 */
export class SentVerdicts {
  readonly #connection: NatsConnection
  readonly #watch: ConnectionWatch
  readonly #runtime: Runtime
  readonly #unsent: SentVerdict[] = []
  readonly #unconfirmed: SentVerdict[] = []
  #isConfirming = false
  #unwatch: (() => void) | undefined

  constructor(connection: NatsConnection, watch: ConnectionWatch, runtime: Runtime) {
    this.#connection = connection
    this.#watch = watch
    this.#runtime = runtime
  }

  /** Sends the verdict at the end of this turn, or when the connection is restored. */
  send(reply: string, verdict: Uint8Array): void {
    this.#unsent.push({ reply, verdict })
    this.#unwatch ??= this.#watch.onChange(() => this.#sendAgain())
    if (this.#unsent.length === 1) void this.#sendAfterTurn()
  }

  /** Never throws: if the connection is being closed, the messages are delivered again. */
  sendNow(): void {
    if (this.#unsent.length === 0 || !this.#watch.isUp) return
    const verdicts = this.#unsent.splice(0)
    this.#unconfirmed.push(...verdicts)
    this.#publish(verdicts)
    if (!this.#isConfirming) void this.#confirm()
  }

  async #sendAfterTurn(): Promise<void> {
    await this.#runtime.yield?.()
    this.sendNow()
  }

  /** One round trip at a time, for all verdicts that were sent before it. */
  async #confirm(): Promise<void> {
    this.#isConfirming = true
    while (this.#unconfirmed.length > 0 && this.#watch.isUp) {
      const sent = this.#unconfirmed.length
      try {
        await this.#connection.flush()
      } catch {
        break
      }
      this.#unconfirmed.splice(0, sent)
    }
    this.#isConfirming = false
    if (this.#unconfirmed.length + this.#unsent.length === 0) this.#stop()
  }

  #sendAgain(): void {
    if (this.#watch.over !== undefined) {
      this.#unconfirmed.length = 0
      this.#unsent.length = 0
      this.#stop()
      return
    }
    if (!this.#watch.isUp) return
    this.#publish(this.#unconfirmed)
    this.sendNow()
    if (!this.#isConfirming) void this.#confirm()
  }

  #publish(verdicts: readonly SentVerdict[]): void {
    try {
      for (const { reply, verdict } of verdicts) this.#connection.publish(reply, verdict)
    } catch {
      // The connection is being closed.
    }
  }

  #stop(): void {
    this.#unwatch?.()
    this.#unwatch = undefined
  }
}
