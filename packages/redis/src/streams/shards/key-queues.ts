/** An entry that waits behind another one of its key. Its fields may have been dropped; they are read again when its turn comes. */
export interface WaitingEntry {
  readonly id: string
  readonly deliveries: number
  readonly fields: readonly Buffer[] | undefined
}

/** The keys with an entry that is being handled, and the entries that wait behind it. */
export class KeyQueues {
  readonly #waiting = new Map<string, WaitingEntry[]>()
  #size = 0
  #withFields = 0

  /** The number of waiting entries. */
  get size(): number {
    return this.#size
  }

  /** How many of them have their fields. */
  get withFields(): number {
    return this.#withFields
  }

  get ids(): string[] {
    return [...this.#waiting.values()].flatMap((entries) => entries.map(({ id }) => id))
  }

  /** Whether the key was free; if so, it now has an entry that is being handled. */
  open(key: string): boolean {
    if (this.#waiting.has(key)) return false
    this.#waiting.set(key, [])
    return true
  }

  push(key: string, entry: WaitingEntry): void {
    this.#waiting.get(key)?.push(entry)
    this.#size += 1
    if (entry.fields !== undefined) this.#withFields += 1
  }

  /** The entry of the key is done: returns the next one; `undefined` if there is none and the key is free. */
  next(key: string): WaitingEntry | undefined {
    const entry = this.#waiting.get(key)?.shift()
    if (entry === undefined) {
      this.#waiting.delete(key)
      return undefined
    }
    this.#size -= 1
    if (entry.fields !== undefined) this.#withFields -= 1
    return entry
  }

  clear(): void {
    this.#waiting.clear()
    this.#size = 0
    this.#withFields = 0
  }
}
