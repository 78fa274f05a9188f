import { KeyQueues } from '@ackord/core/broker'
import type { HeldMessage } from './held-messages.ts'

/**
 * Hands out one message of each key at a time, in the order of the stream.
 *
 *     closed: what comes is collected ─ open(), once all that has no verdict is here ─▶ open
 *     open ─ close(), when the connection is lost, or a message came to somebody else ─▶ closed
 */
export class OrderedMessages {
  readonly #keyOf: (held: HeldMessage) => string | undefined
  readonly #offer: (held: HeldMessage) => void
  readonly #queues = new KeyQueues<HeldMessage>()
  readonly #keys = new Map<HeldMessage, string>()
  readonly #collected = new Set<HeldMessage>()
  #isOpen = false
  // By the consumer's count of deliveries: what came while it was closed, and what must come next.
  #seen: number[] = []
  #next = 0

  constructor(keyOf: (held: HeldMessage) => string | undefined, offer: (held: HeldMessage) => void) {
    this.#keyOf = keyOf
    this.#offer = offer
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Tells of each delivery. `false` if there was one in between that came to somebody else: what follows may have overtaken it. */
  follows(consumerSequence: number): boolean {
    if (!this.#isOpen) {
      this.#seen.push(consumerSequence)
      return true
    }
    if (consumerSequence !== this.#next) return false
    this.#next += 1
    return true
  }

  add(held: HeldMessage): void {
    if (!this.#isOpen) {
      this.#collected.add(held)
      return
    }
    const key = this.#keyOf(held)
    if (key === undefined) {
      this.#offer(held)
      return
    }
    this.#keys.set(held, key)
    if (this.#queues.add(key, held)) this.#offer(held)
  }

  /** All of the consumer's first so many deliveries have a verdict, or are here. `false` if one after those came to somebody else; then it stays closed. */
  open(delivered: number): boolean {
    const later = this.#seen.filter((sequence) => sequence > delivered)
    if (!later.every((sequence, index) => sequence === delivered + 1 + index)) return false
    this.#next = delivered + 1 + later.length
    this.#isOpen = true
    // It came in the order in which others had given it back.
    const collected = [...this.#collected].sort((one, other) => one.delivery.sequence - other.delivery.sequence)
    this.#collected.clear()
    for (const held of collected) this.add(held)
    return true
  }

  /** What waits for its turn is forgotten, and must be given back; keys with a message in hand stay taken. */
  close(): void {
    this.#isOpen = false
    this.#collected.clear()
    this.#seen = []
    // The key is taken by another one: that these go back must not free it.
    for (const held of this.#queues.removeWaiting()) this.#keys.delete(held)
  }

  /** It has its verdict, or went back. */
  done(held: HeldMessage): void {
    this.#collected.delete(held)
    const key = this.#keys.get(held)
    if (key === undefined) return
    this.#keys.delete(held)
    const next = this.#queues.next(key)
    if (next !== undefined) this.#offer(next)
  }
}
