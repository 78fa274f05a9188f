import type { Runtime } from '@ackord/core'
import { claimedRecord, isPending, type MemoryRow, type MemoryRows, wants } from './memory-rows.ts'
import type { Claim, ClaimedRecord, ClaimOptions, Outcome } from './outbox-store.ts'

/** Who has which rows of a memory store: the part that differs between the two orders. One per store object. */
export interface MemoryClaims {
  claim(options: ClaimOptions): readonly ClaimedRecord[]
  renew(claims: readonly Claim[], lease: number): readonly boolean[]
  /** The row, if the claim still holds. */
  held(claim: Claim): MemoryRow | undefined
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
    const { limit, lease, retried } = options
    const now = this.#runtime.now()
    const claimed: ClaimedRecord[] = []
    for (const row of this.#rows.all()) {
      if (claimed.length >= limit) break
      if (!isClaimable(row, now) || !wants(options, row)) continue
      if (retried !== undefined && (retried === 'only') !== row.attempts > 0) continue
      row.attempts += 1
      row.token = this.#runtime.uuid()
      row.leasedUntil = now + lease
      claimed.push(claimedRecord(row, row.token, row.attempts))
    }
    return claimed
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
