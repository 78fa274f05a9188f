import type { Delivery, RawMessage } from '@ackord/core'
import { PushedMessages } from '@ackord/core/internal'
import type { DeliveryCounts } from './delivery-counts.ts'
import type { HeldMessage } from './held-message.ts'

/** What an iteration belongs to. */
export interface IterationOwner {
  readonly disposed: boolean
  readonly counts: DeliveryCounts
  readonly receive: (delivery: Delivery) => RawMessage
  started(iteration: HttpIteration): void
  ended(iteration: HttpIteration): void
}

/** One reader of what requests bring. */
export class HttpIteration {
  readonly messages: PushedMessages<HeldMessage>
  readonly #owner: IterationOwner
  readonly #signal: AbortSignal
  readonly #waiting = new Set<HeldMessage>()
  #inHand = 0

  constructor(owner: IterationOwner, signal: AbortSignal) {
    this.#owner = owner
    this.#signal = signal
    this.messages = new PushedMessages<HeldMessage>(
      {
        start: () => owner.started(this),
        messageOf: (held) => this.#messageOf(held),
        leave: () => this.#leave(),
        isDisposed: () => owner.disposed,
      },
      signal,
    )
  }

  /** How many messages it has that are not settled. */
  get load(): number {
    return this.#waiting.size + this.#inHand
  }

  /** Whether it is about to end: of several that end with one signal, the last hear of it after the first have given back. */
  get isEnding(): boolean {
    return this.#signal.aborted
  }

  deliver(messages: readonly HeldMessage[]): void {
    for (const held of messages) this.#waiting.add(held)
    // One by one: a batch may be larger than a list of arguments.
    for (const held of messages) this.messages.push(held)
  }

  #messageOf(held: HeldMessage): RawMessage | undefined {
    this.#waiting.delete(held)
    const content = held.take()
    if (content === undefined) return undefined
    const { counts, receive } = this.#owner
    const { data, attributes } = content
    this.#inHand += 1
    return receive({
      data,
      attributes,
      deliveryCount: counts.count(attributes),
      ack: () => {
        this.#inHand -= 1
        held.ack()
        counts.forget(attributes)
      },
      nack: (_error, { retryAfter = 0 }) => {
        this.#inHand -= 1
        held.nack(retryAfter)
      },
    })
  }

  async #leave(): Promise<void> {
    this.#owner.ended(this)
    const returned = [...this.#waiting]
    this.#waiting.clear()
    for (const held of returned) held.giveBack()
  }
}
