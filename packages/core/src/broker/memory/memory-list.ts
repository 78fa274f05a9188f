/** An item that is in at most one list. */
export interface Linked<T> {
  previous: T | undefined
  next: T | undefined
}

/**
 * A queue with removal from the middle; every operation takes constant time. Removing an item clears its links: a removed item must not keep its
 * neighbours in memory.
 */
export class LinkedList<T extends Linked<T>> {
  #first: T | undefined
  #last: T | undefined
  #size = 0

  get first(): T | undefined {
    return this.#first
  }

  get size(): number {
    return this.#size
  }

  push(item: T): void {
    const last = this.#last
    item.previous = last
    if (last === undefined) this.#first = item
    else last.next = item
    this.#last = item
    this.#size += 1
  }

  shift(): T | undefined {
    const first = this.#first
    if (first !== undefined) this.remove(first)
    return first
  }

  /** The item must be in this list. */
  remove(item: T): void {
    const { previous, next } = item
    if (previous === undefined) this.#first = next
    else previous.next = next
    if (next === undefined) this.#last = previous
    else next.previous = previous
    item.previous = undefined
    item.next = undefined
    this.#size -= 1
  }

  /** Removes all items at once, without clearing their links. */
  clear(): void {
    this.#first = undefined
    this.#last = undefined
    this.#size = 0
  }
}
