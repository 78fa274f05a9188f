/**
 * Items in reusable slots. A Set with a high turnover would reallocate its table again and again, each linked from the one before: a dead table in
 * the old space keeps all later ones alive, with the messages in them.
 */
export class Slots<T> {
  readonly #places: (T | undefined)[] = []
  readonly #free: number[] = []

  get size(): number {
    return this.#places.length - this.#free.length
  }

  /** Returns the slot of the item until it is removed. */
  add(item: T): number {
    const place = this.#free.pop() ?? this.#places.length
    this.#places[place] = item
    return place
  }

  remove(place: number): void {
    this.#places[place] = undefined
    this.#free.push(place)
  }

  all(): T[] {
    return this.#places.filter((item) => item !== undefined)
  }
}
