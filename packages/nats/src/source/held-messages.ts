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
  /** Told when one is settled or lost. */
  readonly onFreed: (held: HeldMessage) => void
}

/**
 * What was delivered and has no verdict. As long as it is here JetStream is told that somebody works on it, three times within the consumer's `ack_wait`, so that it
 * is not delivered again. A verdict is valid on whichever connection it comes: while there is none it waits a little.
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

  /** Milliseconds, as the consumer has it. */
  set ackWait(ackWait: number) {
    this.#ackWait = ackWait
  }

  /** `undefined` for one that is here already: it was delivered again because no sign of life came through, and its holder has it still. */
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

  /** JetStream delivers it again after so many milliseconds, to any consumer. */
  nack(held: HeldMessage, delay: number): void | Promise<void> {
    const verdict = delay > 0 ? utf8.encode(`-NAK ${JSON.stringify({ delay: Math.ceil(delay) * nanoseconds })}`) : nacked
    return this.#settle(held, verdict)
  }

  /** Has JetStream deliver it again at once, if that can be told. Never throws. */
  giveBack(held: HeldMessage): void {
    this.#remove(held)
    this.#tell(held, nacked)
  }

  /** Throws if it cannot be settled here any more. */
  checkHeld(held: HeldMessage): void {
    if (held.loss === 'disposed') throw disposedError(held)
  }

  /** Sends the verdicts that wait for the end of the turn. */
  sendVerdicts(): void {
    this.#sent.sendNow()
  }

  /** Tells JetStream at once that all of it is in work. */
  beat(): void {
    for (const held of this.#held.values()) this.#tell(held, working)
  }

  /** Verdicts are refused from now on, also those that wait. What is here must be given back. */
  refuse(): void {
    for (const held of this.#held.values()) held.loss = 'disposed'
    this.#disposing.abort()
  }

  // Straight through while there is a connection: nothing is allocated for the usual ack.
  #settle(held: HeldMessage, verdict: Uint8Array): void | Promise<void> {
    this.checkHeld(held)
    if (!this.#settings.watch.isUp) return this.#settleLater(held, verdict)
    this.#send(held, verdict)
    this.#remove(held)
  }

  async #settleLater(held: HeldMessage, verdict: Uint8Array): Promise<void> {
    const { watch, runtime } = this.#settings
    const giveUp = new AbortController()
    const timer = runtime.setTimeout(() => giveUp.abort(), answerTimeout)
    await watch.settled(AbortSignal.any([giveUp.signal, this.#disposing.signal]))
    timer.cancel()
    this.checkHeld(held)
    this.#remove(held)
    if (!watch.isUp) throw lossError(held, watch.over?.cause)
    this.#send(held, verdict)
  }

  /** A nack is not sent again: it could make a message come that somebody else has by now. Its message comes after `ack_wait`. */
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

  #tell(held: HeldMessage, what: Uint8Array): void {
    if (!this.#settings.watch.isUp) return
    try {
      this.#settings.connection.publish(held.delivery.reply, what)
    } catch {
      // The connection is being closed: it is delivered again when its time is over.
    }
  }
}

const utf8 = new TextEncoder()
const acked = utf8.encode('+ACK')
const nacked = utf8.encode('-NAK')
const working = utf8.encode('+WPI')
const terminated = utf8.encode('+TERM')

/** A message that was delivered here and has no verdict. */
export interface HeldMessage {
  /** The last delivery of it. */
  delivery: StreamDelivery
  /** This one included. It grows by itself where a nacked message is kept here. */
  deliveries: number
  /** Whether it was handed out, so that its holder settles it. */
  yielded: boolean
  /** Nacked with a delay that is not over, and kept here. */
  hold: Timer | undefined
  /** What it holds, once that was looked at; an error if it cannot be read. */
  content: ReadMessage | { readonly error: unknown } | undefined
  /** Why it cannot be settled here any more. */
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
 * Verdicts that end a message. Those of one turn of the event loop are sent together: one by one, each would be a write to the socket, which costs more than all the rest.
 *
 * What was sent since the last round trip is kept: NATS answers none of them, and those that are lost with a connection would be found out by their messages
 * coming again, after `ack_wait`. They are sent once more when the connection is back; JetStream takes no notice of those that it has got.
 */
export class SentVerdicts {
  readonly #connection: NatsConnection
  readonly #watch: ConnectionWatch
  readonly #runtime: Runtime
  readonly #unsent: SentVerdict[] = []
  readonly #unsure: SentVerdict[] = []
  #isAsking = false
  #forget: (() => void) | undefined

  constructor(connection: NatsConnection, watch: ConnectionWatch, runtime: Runtime) {
    this.#connection = connection
    this.#watch = watch
    this.#runtime = runtime
  }

  /** At the end of this turn, or when the connection is back. */
  send(reply: string, verdict: Uint8Array): void {
    this.#unsent.push({ reply, verdict })
    this.#forget ??= this.#watch.onChange(() => this.#sendAgain())
    if (this.#unsent.length === 1) void this.#sendAfterTurn()
  }

  /** Never throws: what a connection that is being closed does not take comes again. */
  sendNow(): void {
    if (this.#unsent.length === 0 || !this.#watch.isUp) return
    const verdicts = this.#unsent.splice(0)
    this.#unsure.push(...verdicts)
    this.#publish(verdicts)
    if (!this.#isAsking) void this.#confirm()
  }

  async #sendAfterTurn(): Promise<void> {
    await this.#runtime.yield?.()
    this.sendNow()
  }

  /** One round trip at a time, for all that was sent before it. */
  async #confirm(): Promise<void> {
    this.#isAsking = true
    while (this.#unsure.length > 0 && this.#watch.isUp) {
      const sent = this.#unsure.length
      try {
        await this.#connection.flush()
      } catch {
        break
      }
      this.#unsure.splice(0, sent)
    }
    this.#isAsking = false
    if (this.#unsure.length + this.#unsent.length === 0) this.#stop()
  }

  #sendAgain(): void {
    if (this.#watch.over !== undefined) {
      this.#unsure.length = 0
      this.#unsent.length = 0
      this.#stop()
      return
    }
    if (!this.#watch.isUp) return
    this.#publish(this.#unsure)
    this.sendNow()
    if (!this.#isAsking) void this.#confirm()
  }

  #publish(verdicts: readonly SentVerdict[]): void {
    try {
      for (const { reply, verdict } of verdicts) this.#connection.publish(reply, verdict)
    } catch {
      // The connection is being closed, by its owner or for good.
    }
  }

  #stop(): void {
    this.#forget?.()
    this.#forget = undefined
  }
}
