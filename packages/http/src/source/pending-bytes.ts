/** A request whose body is arriving. */
export interface ArrivingBody {
  /** Reserves memory for the next bytes; `false` if there is none left. */
  take(bytes: number): boolean
  /** The body is whole, or given up. Gives the bytes that stay reserved, for whoever has it now to release. Idempotent. */
  end(): number
}

interface Entry {
  readonly giveUp: () => void
  bytes: number
}

/**
 * The memory of requests under way, in bytes. Bodies that are still arriving make room for others, the one that has taken longest first: a sender
 * that is slow, or sends slowly on purpose, must not keep others out.
 */
export class PendingBytes {
  readonly #limit: number
  readonly #maxArriving: number
  // In the order in which they began.
  readonly #arriving = new Set<Entry>()
  #reserved = 0

  constructor(limit: number, maxArriving: number) {
    this.#limit = limit
    this.#maxArriving = maxArriving
  }

  get reserved(): number {
    return this.#reserved
  }

  /** `giveUp` is called if the body has to make room; it has no memory any more then. */
  arrive(giveUp: () => void): ArrivingBody {
    const entry: Entry = { giveUp, bytes: 0 }
    this.#arriving.add(entry)
    if (this.#arriving.size > this.#maxArriving) this.#giveUpOldest(entry)
    return {
      take: (bytes) => {
        if (!this.#arriving.has(entry) || !this.#reserve(bytes, entry)) return false
        entry.bytes += bytes
        return true
      },
      end: () => {
        if (!this.#arriving.delete(entry)) return 0
        return entry.bytes
      },
    }
  }

  /** `false` if it does not fit, even without the bodies that are arriving. */
  reserve(bytes: number): boolean {
    return this.#reserve(bytes, undefined)
  }

  release(bytes: number): void {
    this.#reserved -= bytes
  }

  #reserve(bytes: number, asking: Entry | undefined): boolean {
    while (this.#reserved + bytes > this.#limit) if (!this.#giveUpOldest(asking)) return false
    this.#reserved += bytes
    return true
  }

  #giveUpOldest(except: Entry | undefined): boolean {
    for (const entry of this.#arriving) {
      if (entry === except) continue
      this.#arriving.delete(entry)
      this.#reserved -= entry.bytes
      entry.giveUp()
      return true
    }
    return false
  }
}
