import type { Runtime } from '@ackord/core'
import type { Claim, ClaimedRecord, ClaimOptions, Outcome } from '../store/outbox-store.ts'
import { claimedRecord, isPending, type MemoryRow, type MemoryRows, wants, withinBytes } from './memory-rows.ts'

/** Who has which rows of a memory store: the part that differs between the two orders. One per store object. */
export interface MemoryClaims {
  claim(options: ClaimOptions): readonly ClaimedRecord[]
  renew(claims: readonly Claim[], lease: number): readonly boolean[]
  /** The row, if the claim still holds. */
  held(claim: Claim): MemoryRow | undefined
  /** Whether some claim has the row, of this store object or another. */
  isHeld(row: MemoryRow): boolean
  /** The row is as it was before the claim. */
  undo(row: MemoryRow): void
  /** What an outcome does to the attempts. */
  count(row: MemoryRow, outcome: Outcome): void
  leave(): void
}

/** In no order: every row has a lease of its own, and its attempt counts when it is claimed. */
export class MemoryRowLeases implements MemoryClaims {
  readonly #rows: MemoryRows
  readonly #runtime: Runtime

  constructor(rows: MemoryRows, runtime: Runtime) {
    this.#rows = rows
    this.#runtime = runtime
  }

  claim(options: ClaimOptions): readonly ClaimedRecord[] {
    const { limit, lease, maxBytes, retried } = options
    const now = this.#runtime.now()
    const found: MemoryRow[] = []
    for (const row of this.#rows.all()) {
      if (found.length >= limit) break
      if (!isClaimable(row, now) || !wants(options, row)) continue
      if (retried !== undefined && (retried === 'only') !== row.attempts > 0) continue
      found.push(row)
    }
    return withinBytes(found, maxBytes, (row) => row).map((row) => {
      row.attempts += 1
      row.token = this.#runtime.uuid()
      row.leasedUntil = now + lease
      return claimedRecord(row, row.token, row.attempts)
    })
  }

  renew(claims: readonly Claim[], lease: number): readonly boolean[] {
    return claims.map((claim) => {
      const row = this.held(claim)
      if (row !== undefined) row.leasedUntil = this.#runtime.now() + lease
      return row !== undefined
    })
  }

  /** An expired lease that nobody took over is lost too, because somebody may at any moment. */
  held({ id, token }: Claim): MemoryRow | undefined {
    const row = this.#rows.get(id)
    return row?.token === token && row.leasedUntil > this.#runtime.now() ? row : undefined
  }

  isHeld(row: MemoryRow): boolean {
    return row.token !== undefined && row.leasedUntil > this.#runtime.now()
  }

  undo(row: MemoryRow): void {
    row.attempts -= 1
    row.token = undefined
  }

  count(): void {}

  leave(): void {}
}

function isClaimable(row: MemoryRow, now: number): boolean {
  return isPending(row) && row.availableAt <= now && (row.token === undefined || row.leasedUntil <= now)
}
