/**
 * Things in hand, in places that are used again. A Set would do, but one that much goes in and out of makes a new table for itself again and
 * again, each linked from the one before: a dead table in the old space keeps all later ones, with the messages in them.
 */
export class Slots<T> {
  readonly #places: (T | undefined)[] = []
  readonly #free: number[] = []

  get size(): number {
    return this.#places.length - this.#free.length
  }

  /** Gives the place it has until it is removed. */
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
