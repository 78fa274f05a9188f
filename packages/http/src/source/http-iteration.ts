import { createHash } from 'node:crypto'
import type { Attributes, RawMessage } from '@ackord/core'
import { type Delivery, PushedMessages } from '@ackord/core/broker'
import type { EventContent } from './read-request.ts'

/** The source of an iteration. */
export interface IterationOwner {
  readonly disposed: boolean
  readonly counts: DeliveryCounts
  readonly receive: (delivery: Delivery) => RawMessage
  started(iteration: HttpIteration): void
  ended(iteration: HttpIteration): void
}

/** One iteration over the messages of requests. */
export class HttpIteration {
  readonly messages: PushedMessages<HeldMessage>
  readonly #owner: IterationOwner
  readonly #signal: AbortSignal
  readonly #waiting = new Set<HeldMessage>()
  #handling = 0

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

  /** The number of its unsettled messages. */
  get load(): number {
    return this.#waiting.size + this.#handling
  }

  /** Whether it is about to end: of several iterations with one signal, the first return their messages before the last are notified. */
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
    this.#handling += 1
    return receive({
      data,
      attributes,
      deliveryCount: counts.count(attributes),
      ack: () => {
        this.#handling -= 1
        held.ack()
        counts.forget(attributes)
      },
      nack: (_error, { retryAfter = 0 }) => {
        this.#handling -= 1
        held.nack(retryAfter)
      },
    })
  }

  async #leave(): Promise<void> {
    this.#owner.ended(this)
    const returned = [...this.#waiting]
    this.#waiting.clear()
    for (const held of returned) held.release()
  }
}

/** An unsettled message of a request. */
export interface HeldMessage {
  /** Its content, when it is handed out; `undefined` if its request has ended, because it waited too long. */
  take(): EventContent | undefined
  /** Throws if the request does not wait for the verdict any more. */
  ack(): void
  /** Throws as `ack` does. */
  nack(retryAfter: number): void
  /** The message was not handed out, and will not be. */
  release(): void
}

/** Counts are kept only for messages that are not handled yet; the oldest are dropped first. */
const maxCounts = 10_000

/** How often each message arrived in this process and was not handled. HTTP does not count deliveries, and the count of the sender is not known here. */
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
    const [oldest] = this.#counts.size > maxCounts ? this.#counts.keys() : []
    if (oldest !== undefined) this.#counts.delete(oldest)
    return count
  }

  forget(attributes: Attributes): void {
    const key = keyOf(attributes)
    if (key !== undefined) this.#counts.delete(key)
  }
}

/** A hash, so that the memory does not depend on the length of ids. */
function keyOf({ source, id }: Attributes): string | undefined {
  if (typeof id !== 'string' || id === '') return undefined
  return createHash('sha256')
    .update(JSON.stringify([source, id]))
    .digest('base64')
}
