import type { Attributes } from '@ackord/core'

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

function keyOf({ source, id }: Attributes): string | undefined {
  return typeof id === 'string' && id !== '' ? JSON.stringify([source, id]) : undefined
}
