import type { Runtime } from '@ackord/core'
import type { Claim, ClaimedRecord, ClaimOptions, Outcome } from '../store/outbox-store.ts'
import { claimedRecord, isPending, type MemoryRow, type MemoryRows, wants, withinBytes } from './memory-rows.ts'

/** Tracks which claim holds which rows of a memory store: the part that differs between the two orders. One per store object. */
export interface MemoryClaims {
  claim(options: ClaimOptions): readonly ClaimedRecord[]
  renew(claims: readonly Claim[], lease: number): readonly boolean[]
  /** The row, if the claim is still valid. */
  held(claim: Claim): MemoryRow | undefined
  /** Whether any claim holds the row, of this store object or another. */
  isHeld(row: MemoryRow): boolean
  /** Restores the row to its state before the claim. */
  undo(row: MemoryRow): void
  /** Counts the attempt according to the outcome. */
  count(row: MemoryRow, outcome: Outcome): void
  leave(): void
  /** The partitions of this store object; `undefined` without order. */
  owned(): readonly number[] | undefined
  /** The partition of a row; `undefined` without order. */
  partitionOf(row: MemoryRow): number | undefined
}

/** Without order: every row has a lease of its own, and the attempt counts when the row is claimed. */
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
      return claimedRecord(row, row.token, row.attempts, now)
    })
  }

  renew(claims: readonly Claim[], lease: number): readonly boolean[] {
    return claims.map((claim) => {
      const row = this.held(claim)
      if (row !== undefined) row.leasedUntil = this.#runtime.now() + lease
      return row !== undefined
    })
  }

  /** A row with an expired lease counts as lost even if no other relay has claimed it, because one may at any moment. */
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

  owned(): undefined {}

  partitionOf(): undefined {}
}

function isClaimable(row: MemoryRow, now: number): boolean {
  return isPending(row) && row.availableAt <= now && (row.token === undefined || row.leasedUntil <= now)
}
