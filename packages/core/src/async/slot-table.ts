/**
 * Items in reusable slots. A Set with a high turnover would reallocate its table again and again, each linked from the one before: a dead table in
 * the old space keeps all later ones alive, with the messages in them.
 */
export class SlotTable<T> {
  readonly #slots: (T | undefined)[] = []
  readonly #free: number[] = []

  get size(): number {
    return this.#slots.length - this.#free.length
  }

  /** Returns the slot of the item until it is removed. */
  add(item: T): number {
    const slot = this.#free.pop() ?? this.#slots.length
    this.#slots[slot] = item
    return slot
  }

  remove(slot: number): void {
    this.#slots[slot] = undefined
    this.#free.push(slot)
  }

  all(): T[] {
    return this.#slots.filter((item) => item !== undefined)
  }
}
