/** A request whose body is arriving. */
export interface ArrivingBody {
  /** Reserves memory for the next bytes; `false` if there is none left. */
  reserve(bytes: number): boolean
  /** The body is complete or aborted. Returns the bytes that stay reserved; the caller must release them. Idempotent. */
  end(): number
}

interface Entry {
  readonly abort: () => void
  bytes: number
}

/**
 * The memory of requests that are being processed, in bytes. Bodies that are still arriving are aborted to make room for others, the oldest first: a slow sender,
 * or one that sends slowly on purpose, must not lock out others.
 */
export class PendingBytes {
  readonly #limit: number
  readonly #maxArriving: number
  // The oldest first.
  readonly #arriving = new Set<Entry>()
  #reserved = 0

  constructor(limit: number, maxArriving: number) {
    this.#limit = limit
    this.#maxArriving = maxArriving
  }

  get reserved(): number {
    return this.#reserved
  }

  /** `abort` is called if the body has to make room for others; its memory is released then. */
  arrive(abort: () => void): ArrivingBody {
    const entry: Entry = { abort, bytes: 0 }
    this.#arriving.add(entry)
    if (this.#arriving.size > this.#maxArriving) this.#abortOldest(entry)
    return {
      reserve: (bytes) => {
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

  /** `false` if it does not fit, even without the arriving bodies. */
  reserve(bytes: number): boolean {
    return this.#reserve(bytes, undefined)
  }

  release(bytes: number): void {
    this.#reserved -= bytes
  }

  #reserve(bytes: number, asking: Entry | undefined): boolean {
    while (this.#reserved + bytes > this.#limit) if (!this.#abortOldest(asking)) return false
    this.#reserved += bytes
    return true
  }

  #abortOldest(except: Entry | undefined): boolean {
    for (const entry of this.#arriving) {
      if (entry === except) continue
      this.#arriving.delete(entry)
      this.#reserved -= entry.bytes
      entry.abort()
      return true
    }
    return false
  }
}
