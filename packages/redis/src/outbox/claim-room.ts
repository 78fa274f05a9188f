/** How much a claim may still take. All steps of a claim share one, so that together they keep to `limit` and `maxBytes`. */
export class ClaimRoom {
  #count: number
  #bytes: number
  #isEmpty: boolean
  #isFull = false

  constructor(limit: number, maxBytes: number, isEmpty = true) {
    this.#count = limit
    this.#bytes = Math.max(0, maxBytes)
    this.#isEmpty = isEmpty
  }

  /** Whether another record may be claimed. */
  get isOpen(): boolean {
    return !this.#isFull && this.#count > 0
  }

  get count(): number {
    return this.#count
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Whether nothing was claimed yet: the first record is claimed however large it is. */
  get isEmpty(): boolean {
    return this.#isEmpty
  }

  use(count: number, bytes: number): void {
    this.#count -= count
    this.#bytes = Math.max(0, this.#bytes - bytes)
    if (count > 0 || bytes > 0) this.#isEmpty = false
  }

  /** The next record is too large for the bytes that are left. */
  close(): void {
    this.#isFull = true
  }
}

/** The part of a claim that one of several sources is asked for. */
export interface Share {
  readonly count: number
  readonly maxBytes: number
  /** Whether its first record is claimed even if it is larger than `maxBytes`. */
  readonly atLeastOne: boolean
}

export interface Portion<Item> {
  readonly items: readonly Item[]
  readonly bytes: number
  /** Whether it stopped before a record that did not fit into `maxBytes`. */
  readonly stopped: boolean
}

/** The arguments of a script: the most bytes, and '1' if the first record is claimed however large it is. */
export function byteArguments({ maxBytes, atLeastOne }: Omit<Share, 'count'>): readonly [string, string] {
  return [String(Math.min(Math.floor(maxBytes), Number.MAX_SAFE_INTEGER)), atLeastOne ? '1' : '0']
}
