/** Items of one key take turns: one is under way, the others wait behind it in their order. */
export class KeyQueues<Item> {
  // A key is here while it has an item under way.
  readonly #waiting = new Map<string, Item[]>()
  #size = 0

  /** The number of items that wait. */
  get size(): number {
    return this.#size
  }

  /** The items that wait, in their order per key. */
  *waiting(): Generator<Item> {
    for (const queue of this.#waiting.values()) yield* queue
  }

  /** Whether the item may go now; otherwise it waits for its turn. */
  add(key: string, item: Item): boolean {
    if (this.take(key)) return true
    this.push(key, item)
    return false
  }

  /** Whether the key was free. It then has an item under way. */
  take(key: string): boolean {
    if (this.#waiting.has(key)) return false
    this.#waiting.set(key, [])
    return true
  }

  /** Adds an item behind the one under way. The key must be taken. */
  push(key: string, item: Item): void {
    this.#waiting.get(key)?.push(item)
    this.#size += 1
  }

  /** The item under way is done. Returns the next one, which is now under way; with `undefined` the key is free. */
  next(key: string): Item | undefined {
    const queue = this.#waiting.get(key)
    if (queue === undefined) return undefined
    const item = queue.shift()
    if (item === undefined) this.#waiting.delete(key)
    else this.#size -= 1
    return item
  }

  /** Removes and returns the items that wait. Keys with an item under way stay taken. */
  removeWaiting(): Item[] {
    this.#size = 0
    return [...this.#waiting.values()].flatMap((queue) => queue.splice(0))
  }

  /** Removes everything; all keys are free. */
  clear(): void {
    this.#waiting.clear()
    this.#size = 0
  }
}
