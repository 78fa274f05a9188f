import { createHash } from 'node:crypto'
import type { Attributes, RawMessage } from '@ackord/core'
import { type Delivery, PushedMessages } from '@ackord/core/broker'
import type { EventContent } from './read-request.ts'

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

/** A message that came by a request and is not settled. */
export interface HeldMessage {
  /** What it is made of, for whoever handles it now; `undefined` if it is not wanted any more, because it took too long to get there. */
  take(): EventContent | undefined
  /** Throws if nobody waits for the verdict any more. */
  ack(): void
  /** Throws as `ack` does. */
  nack(retryAfter: number): void
  /** Nobody has seen it, and nobody will. */
  giveBack(): void
}

/** Only of what is not handled yet; the oldest are forgotten first. */
const most = 10_000

/** How often each message came to this process and was not handled. HTTP does not count; the sender's own count does not reach us. */
export class DeliveryCounts {
  readonly #counts = new Map<string, number>()

  /** Counts this delivery. `undefined` for a message without an id. */
  count(attributes: Attributes): number | undefined {
    const key = keyOf(attributes)
    if (key === undefined) return undefined
    const count = (this.#counts.get(key) ?? 0) + 1
    // Moves to the end.
    this.#counts.delete(key)
    this.#counts.set(key, count)
    const [oldest] = this.#counts.size > most ? this.#counts.keys() : []
    if (oldest !== undefined) this.#counts.delete(oldest)
    return count
  }

  forget(attributes: Attributes): void {
    const key = keyOf(attributes)
    if (key !== undefined) this.#counts.delete(key)
  }
}

/** A hash, so that the memory does not depend on how long ids are. */
function keyOf({ source, id }: Attributes): string | undefined {
  if (typeof id !== 'string' || id === '') return undefined
  return createHash('sha256')
    .update(JSON.stringify([source, id]))
    .digest('base64')
}
