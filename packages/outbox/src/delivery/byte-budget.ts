import { abortable } from '@ackord/core/internal'
import type { ClaimedRecord } from '../store/outbox-store.ts'

/** `bytes` and `claim` may change. */
interface Limits {
  readonly bytes: number
  /** A limit even for small records: each record in flight uses memory, and possibly a connection. */
  readonly records: number
  /** The maximum number of bytes per claim. */
  readonly claim: number
}

/**
 * Counts the records a relay has in memory, and their bytes, over all batches. A claim waits until there is room for it; claimed records count until
 * they are settled.
 */
export class ByteBudget {
  readonly #limits: Limits
  #used = 0
  #records = 0
  #freed: (() => void)[] = []

  constructor(limits: Limits) {
    this.#limits = limits
  }

  /** Whether no more records should be accepted. */
  get isFull(): boolean {
    const { bytes, records } = this.#limits
    return this.#used >= bytes || this.#records >= records
  }

  /**
   * Resolves when there is room for a full claim, or nothing is in memory, to the number of bytes that it reserves until `claimed`: the size of a
   * full claim. Rejects when the signal is aborted.
   */
  async reserve(signal: AbortSignal): Promise<number> {
    const isTooFull = ({ bytes, records, claim }: Limits) => (this.#used > 0 && this.#used + claim > bytes) || this.#records >= records
    while (isTooFull(this.#limits)) {
      await abortable(new Promise<void>((resolve) => void this.#freed.push(resolve)), signal)
    }
    const { claim } = this.#limits
    this.#used += claim
    return claim
  }

  /** Replaces the reservation with the size of the claimed records. */
  claimed(records: readonly ClaimedRecord[], reserved: number): void {
    this.add(records)
    this.#free(reserved)
  }

  add(records: readonly ClaimedRecord[]): void {
    this.#used += bytesOf(records)
    this.#records += records.length
  }

  /** The records are settled, released or lost. */
  free(records: readonly ClaimedRecord[]): void {
    this.#records -= records.length
    this.#free(bytesOf(records))
  }

  #free(bytes: number): void {
    this.#used -= bytes
    const waiting = this.#freed
    this.#freed = []
    for (const resolve of waiting) resolve()
  }
}

/** The sizes of batches. A batch is measured when it is claimed, and in most cases is freed as a whole. */
const sizes = new WeakMap<readonly ClaimedRecord[], number>()

/** About the number of bytes that the store counts for `maxBytes`. */
export function bytesOf(records: readonly ClaimedRecord[]): number {
  const known = sizes.get(records)
  if (known !== undefined) return known
  let bytes = 0
  for (const { message } of records) {
    bytes += message.data.byteLength
    const { attributes } = message
    for (const name in attributes) {
      const value = attributes[name]
      bytes += name.length + (typeof value === 'string' ? value.length : String(value ?? '').length)
    }
  }
  sizes.set(records, bytes)
  return bytes
}
