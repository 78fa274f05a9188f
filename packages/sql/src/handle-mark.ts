/** Gives the object that it is made of, so that a class that extends it adds its private fields to that. */
class Bearer {
  constructor(object: object) {
    // biome-ignore lint/correctness/noConstructorReturn: that is the point.
    return object
  }
}

/**
 * Something that is known of an object, kept in a private field of that object. A WeakMap would do the same; but with an entry per message, and until the next full
 * collection, it costs more than the rest of a transaction's bookkeeping.
 */
class Mark extends Bearer {
  #owner: object
  #value: unknown

  constructor(object: object, owner: object, value: unknown) {
    super(object)
    this.#owner = owner
    this.#value = value
  }

  static set(object: object, owner: object, value: unknown): void {
    if (#owner in object) {
      object.#owner = owner
      object.#value = value
    } else {
      new Mark(object, owner, value)
    }
  }

  static get(object: object, owner: object): unknown {
    return #owner in object && object.#owner === owner ? object.#value : undefined
  }
}

/** The latest mark of an object counts. */
export function setMark(object: object, owner: object, value: unknown): void {
  Mark.set(object, owner, value)
}

/** What the owner has marked the object with, unless somebody else has since. */
export function markOf(object: unknown, owner: object): unknown {
  const canHaveOne = (typeof object === 'object' && object !== null) || typeof object === 'function'
  return canHaveOne ? Mark.get(object, owner) : undefined
}
