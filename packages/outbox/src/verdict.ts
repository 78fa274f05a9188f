import type { ClaimedRecord, Outcome } from './outbox-store.ts'

/**
 * Why a record is parked. `permanent`: the publisher says that it will never work. `attempts`: it has used them up. `unsettled`: it was claimed
 * too often and never settled. `expired`: its `expirytime` has passed. `unmapped`: `map` failed for it. `behind`: one before it in its key is parked,
 * and `onExhausted` is 'parkKey'.
 */
export type ParkReason = 'permanent' | 'attempts' | 'unsettled' | 'expired' | 'unmapped' | 'behind'

/** What has been found out about a claimed record, before the store is told. A record without one goes back as it was. */
export interface Verdict {
  readonly record: ClaimedRecord
  readonly outcome: Outcome
  /** What it failed with, whole; the outcome has its text. */
  readonly error?: unknown
  /** If it is to be parked. */
  readonly reason?: ParkReason | undefined
}
