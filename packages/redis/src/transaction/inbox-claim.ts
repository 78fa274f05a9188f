import type { OutputIds } from '@ackord/core'

/**
 * What an inbox hands to the transaction inside of it: the marker that commits with it.
 *
 *     open ─▶ committed   by the transaction, or by the inbox if there was none; while the afterCommit callbacks run
 *               ─▶ over   after them
 *          ─▶ released    the lease was given up, or there is none any more: nothing of it is there, and nothing will be
 *          ─▶ left        what became of it is for the marker to tell: unknown, partial, or another worker's
 */
export interface InboxClaim {
  readonly marker: string
  readonly token: string
  readonly rule: 'lease' | 'once'
  readonly retention: number
  state: 'open' | 'committed' | 'over' | 'released' | 'left'
  /** Whether a transaction has it. There is one marker, so it is for one: of a second one it would say that it is done. */
  taken: boolean
  /** For one attempt. */
  outputIds(): OutputIds
  /** Ends the renewal of the lease, where there is one. */
  readonly stopKeeping: (() => void) | undefined
  /** Idempotent. Never rejects. */
  release(): Promise<void>
}
