import { KeyQueues } from '@ackord/core/broker'
import type { HeldMessage } from './held-messages.ts'

/**
 * Hands out one message of each key at a time, in the order of the stream.
 *
 *     closed: messages are collected ─ open(), once all unsettled messages have arrived ─▶ open
 *     open ─ close(), when the connection is lost, or another source received a message ─▶ closed
 */
export class OrderedMessages {
  readonly #keyOf: (held: HeldMessage) => string | undefined
  readonly #offer: (held: HeldMessage) => void
  readonly #queues = new KeyQueues<HeldMessage>()
  readonly #keys = new Map<HeldMessage, string>()
  readonly #collected = new Set<HeldMessage>()
  #isOpen = false
  // In the consumer's count of deliveries: those that arrived while it was closed, and the one that must come next.
  #seen: number[] = []
  #next = 0

  constructor(keyOf: (held: HeldMessage) => string | undefined, offer: (held: HeldMessage) => void) {
    this.#keyOf = keyOf
    this.#offer = offer
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Called for each delivery. `false` if another source received one in between: later messages may have overtaken it. */
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

  /** The first `delivered` deliveries of the consumer are settled or have arrived. `false` if another source received a later one; then it stays closed. */
  open(delivered: number): boolean {
    const later = this.#seen.filter((sequence) => sequence > delivered)
    if (!later.every((sequence, index) => sequence === delivered + 1 + index)) return false
    this.#next = delivered + 1 + later.length
    this.#isOpen = true
    // They arrived in the order in which earlier readers had returned them.
    const collected = [...this.#collected].sort((one, other) => one.delivery.sequence - other.delivery.sequence)
    this.#collected.clear()
    for (const held of collected) this.add(held)
    return true
  }

  /** Messages that wait for their turn are removed, and must be returned to NATS; keys with a message that is being handled stay taken. */
  close(): void {
    this.#isOpen = false
    this.#collected.clear()
    this.#seen = []
    // Another message has their key: returning these must not free it.
    for (const held of this.#queues.removeWaiting()) this.#keys.delete(held)
  }

  /** The message is settled, or was returned. */
  done(held: HeldMessage): void {
    this.#collected.delete(held)
    const key = this.#keys.get(held)
    if (key === undefined) return
    this.#keys.delete(held)
    const next = this.#queues.next(key)
    if (next !== undefined) this.#offer(next)
  }
}
