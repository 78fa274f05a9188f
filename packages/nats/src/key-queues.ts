import type { HeldMessage } from './held-message.ts'

/** The keys that have a message under way, and what waits behind it. */
export class KeyQueues {
  readonly #waiting = new Map<string, HeldMessage[]>()

  /** Whether it may go at once; if not it waits for its turn. */
  add(key: string, held: HeldMessage): boolean {
    const queue = this.#waiting.get(key)
    if (queue === undefined) {
      this.#waiting.set(key, [])
      return true
    }
    queue.push(held)
    return false
  }

  /** The one under way is done: the next one, or `undefined`, and the key is free. */
  next(key: string): HeldMessage | undefined {
    const held = this.#waiting.get(key)?.shift()
    if (held === undefined) this.#waiting.delete(key)
    return held
  }

  /** Nothing waits any more; keys that have a message under way keep it. Gives what has waited. */
  clear(): HeldMessage[] {
    return [...this.#waiting.values()].flatMap((queue) => queue.splice(0))
  }
}
