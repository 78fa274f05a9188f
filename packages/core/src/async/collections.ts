/** Splits the items into chunks within the limits, in their order, with at least one item each. */
export function* inChunks<T>(
  items: readonly T[],
  limits: { readonly count: number; readonly size: number },
  sizeOf: (item: T) => number,
): Generator<readonly T[]> {
  let chunk: T[] = []
  let size = 0
  for (const item of items) {
    const added = sizeOf(item)
    if (chunk.length > 0 && (chunk.length === limits.count || size + added > limits.size)) {
      yield chunk
      chunk = []
      size = 0
    }
    chunk.push(item)
    size += added
  }
  if (chunk.length > 0) yield chunk
}

/** Groups the items by key. Groups are in the order of their first items, items in their own order. */
export function groupBy<T, K>(items: Iterable<T>, keyOf: (item: T) => K): [K, [T, ...T[]]][] {
  const groups = new Map<K, [T, ...T[]]>()
  let last: K | undefined
  let group: [T, ...T[]] | undefined
  for (const item of items) {
    const key = keyOf(item)
    // Most items have the key of the previous one: saves a lookup.
    if (group === undefined || key !== last) group = groups.get(key)
    if (group === undefined) {
      group = [item]
      groups.set(key, group)
    } else {
      group.push(item)
    }
    last = key
  }
  return [...groups]
}

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
