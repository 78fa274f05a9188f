import { abortable } from '@ackord/core/internal'
import type { ClaimedRecord } from '../store/outbox-store.ts'

interface Limits {
  readonly bytes: number
  /** However small they are: each that is on its way takes memory, and maybe a connection. */
  readonly records: number
  /** The most bytes that one claim takes. */
  readonly claim: number
}

/**
 * How many records a relay has in memory, and of how many bytes, all batches together. A claim waits until there is room for one; what is claimed counts until it is
 * settled.
 */
export class ByteBudget {
  readonly #limits: Limits
  #used = 0
  #records = 0
  #freed: (() => void)[] = []

  constructor(limits: Limits) {
    this.#limits = limits
  }

  /** Whether nothing more should be taken in. */
  get isFull(): boolean {
    const { bytes, records } = this.#limits
    return this.#used >= bytes || this.#records >= records
  }

  /** Resolves when a claim fits beside what is there, or nothing is there. Counts it as a full one, until `claimed` or `free`. Rejects when the signal is aborted. */
  async reserve(signal: AbortSignal): Promise<void> {
    const { bytes, records, claim } = this.#limits
    while ((this.#used > 0 && this.#used + claim > bytes) || this.#records >= records) {
      await abortable(new Promise<void>((resolve) => void this.#freed.push(resolve)), signal)
    }
    this.#used += claim
  }

  /** The reserved claim came to this. */
  claimed(records: readonly ClaimedRecord[]): void {
    this.add(records)
    this.#free(this.#limits.claim)
  }

  add(records: readonly ClaimedRecord[]): void {
    this.#used += bytesOf(records)
    this.#records += records.length
  }

  /** They are settled, given back or lost. */
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

/** About as many as the store counts for `maxBytes`. */
export function bytesOf(records: readonly ClaimedRecord[]): number {
  let bytes = 0
  for (const { message } of records) {
    bytes += message.data.byteLength
    const { attributes } = message
    for (const name in attributes) bytes += name.length + String(attributes[name] ?? '').length
  }
  return bytes
}
