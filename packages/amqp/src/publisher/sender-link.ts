import type { PublishResult, Runtime } from '@ackord/core'
import type { Outgoing } from '@ackord/core/broker'
import type { AmqpConnection, AmqpContext, AmqpDelivery, AmqpSender } from '../client.ts'
import { type ConditionError, errorOf } from '../conditions.ts'
import { OwnLink } from '../own-link.ts'
import { type Envelope, rejected, tooLarge, unconfirmed, unroutable } from './publish-failures.ts'

export interface SenderSettings {
  readonly unroutable: 'destination' | 'record'
  readonly runtime: Runtime
}

interface Waiting {
  readonly outgoing: Outgoing<Envelope>
  readonly signal: AbortSignal
}

const ok: PublishResult = { ok: true }

/** A link to one address. Several calls may use it at once, because each message has its own outcome. */
export class SenderLink {
  readonly #address: string
  readonly #own: OwnLink<AmqpSender>
  /** Messages that wait for credit, in their order. */
  readonly #waiting: Waiting[] = []
  readonly #unsettled = new Map<unknown, Outgoing<Envelope>>()
  /** Calls that have yet to send something. */
  #users = 0
  #failure: ConditionError | undefined
  #isScheduled = false

  constructor(connection: AmqpConnection, address: string, settings: SenderSettings) {
    this.#address = address
    const options = { target: { address }, snd_settle_mode: 0 } as const
    this.#own = new OwnLink(connection, 'sender', (session) => session.open_sender(options), settings.runtime)
    const { link } = this.#own
    link.on('sendable', () => this.#pump())
    link.on('accepted', (context) => this.#settle(context, () => ok))
    link.on('rejected', (context) =>
      this.#settle(context, () => rejected(address, errorOf((context.delivery as AmqpDelivery).remote_state))),
    )
    // rhea announces a modified message as released, too: the broker does not have it in either case.
    link.on('released', (context) => this.#settle(context, () => unroutable(address, settings.unroutable)))
    link.on('modified', (context) => this.#settle(context, () => unroutable(address, settings.unroutable)))
    // After the events above. Without an outcome nothing is known about the message.
    link.on('settled', (context) => this.#settle(context, () => unconfirmed(address, new Error('it was settled without an outcome'))))
    void this.#own.lost.then((error) => this.#lose(error))
  }

  get isLost(): boolean {
    return this.#own.isLost
  }

  /** Whether no message waits for the link, for credit or for its outcome. */
  get isIdle(): boolean {
    return this.#users === 0 && this.#waiting.length === 0 && this.#unsettled.size === 0
  }

  get lost(): Promise<unknown> {
    return this.#own.lost
  }

  /**
   * Sends the messages as soon as the broker gives credit for them; those that still wait when the signal is aborted are not sent. Resolves when they wait for credit. Rejects
   * if the link is not attached before `attaching` is aborted, or at all.
   */
  async send(messages: readonly Outgoing<Envelope>[], signal: AbortSignal, attaching: AbortSignal): Promise<void> {
    this.#users += 1
    try {
      await this.#own.opened(attaching)
    } finally {
      this.#users -= 1
    }
    this.#queue(messages, signal)
  }

  /** Messages that have no outcome by now fail. */
  async close(): Promise<void> {
    this.#lose(Object.assign(new Error('the link was closed'), { condition: undefined }))
    await this.#own.close()
  }

  #queue(messages: readonly Outgoing<Envelope>[], signal: AbortSignal): void {
    const { max_message_size: limit } = this.#own.link
    for (const outgoing of messages) {
      const { byteLength } = outgoing.item.payload
      if (this.#failure !== undefined) outgoing.settle(unconfirmed(this.#address, this.#failure))
      else if (typeof limit === 'number' && limit > 0 && byteLength > limit) outgoing.settle(tooLarge(this.#address, byteLength, limit))
      else this.#waiting.push({ outgoing, signal })
    }
    this.#pump()
  }

  /** Sends what there is credit for. rhea counts the credit down when it writes, in the next tick, and buffers what is sent beyond it. */
  #pump(): void {
    if (this.#isScheduled || this.#failure !== undefined) return
    const { link } = this.#own
    for (let room = link.sendable() ? (link.credit ?? 1) : 0; room > 0; room -= 1) {
      const next = this.#takeWaiting()
      if (next === undefined) break
      this.#unsettled.set(link.send(next.item.payload, undefined, 0), next)
      this.#isScheduled = true
    }
    if (!this.#isScheduled) return
    // biome-ignore lint/style/noRestrictedGlobals: rhea writes in a tick of its own, which ends before this one begins. Microtasks may run before it.
    process.nextTick(() => {
      this.#isScheduled = false
      this.#pump()
    })
  }

  /** The next message that is still wanted. */
  #takeWaiting(): Outgoing<Envelope> | undefined {
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      if (!next.signal.aborted) return next.outgoing
    }
    return undefined
  }

  #settle({ delivery }: AmqpContext, resultOf: () => PublishResult): void {
    const outgoing = this.#unsettled.get(delivery)
    if (outgoing === undefined) return
    this.#unsettled.delete(delivery)
    outgoing.settle(resultOf())
  }

  #lose(error: ConditionError): void {
    if (this.#failure !== undefined) return
    this.#failure = error
    const failure = unconfirmed(this.#address, error)
    for (const outgoing of this.#unsettled.values()) outgoing.settle(failure)
    for (const { outgoing } of this.#waiting) outgoing.settle(failure)
    this.#unsettled.clear()
    this.#waiting.length = 0
  }
}
