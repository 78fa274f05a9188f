import type { Logger } from '@ackord/core'
import { checkDuration } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, Outcome } from '@ackord/outbox'
import { compareSeq } from './claim-token.ts'
import { readMessage } from './outbox-row.ts'
import type { Row } from './row.ts'

/** A claimed row as the relay sees it; `unreadable`: it must be parked. */
export type Claimed = { readonly record: ClaimedRecord } | { readonly unreadable: Outcome }

/** `attempts` includes this one. */
export function readClaimed(row: Row, claim: Claim, attempts: number, logger: Logger): Claimed {
  const { id, token } = claim
  const { message, problem } = readMessage(row)
  if (problem === undefined) {
    return { record: { id, token, destination: String(row['destination']), message, attempts, createdAt: Number(row['created_at']) } }
  }
  logger.error({ id: row['id'], seq: id }, `An outbox record is parked, because it cannot be read: ${problem}`)
  return { unreadable: { id, token, result: 'parked', error: problem } }
}

export interface Settling<Found> {
  /** Outcomes, each with its row; `undefined` for a token that is not from this store, or no longer valid. */
  readonly locate: (outcomes: readonly Outcome[]) => readonly (Found | undefined)[]
  /** Resolves to the ids whose claim was valid. */
  readonly apply: (found: readonly Found[]) => Promise<ReadonlySet<string>>
}

/** Settles claims, sorted by seq, so that no two callers deadlock. Returns a result for each outcome, in order. */
export async function settleOutcomes<Found>(
  outcomes: readonly Outcome[],
  { locate, apply }: Settling<Found>,
): Promise<readonly ('applied' | 'lost')[]> {
  const deciding = isAscending(outcomes) ? outcomes : firstOfEach(outcomes)
  const found = locate(deciding.map(checked)).filter((one) => one !== undefined)
  if (found.length === 0) return outcomes.map(() => 'lost')
  const applied = await apply(found)
  const counted = deciding === outcomes ? undefined : new Set(deciding)
  return outcomes.map((outcome) => (applied.has(outcome.id) && counted?.has(outcome) !== false ? 'applied' : 'lost'))
}

function isAscending(outcomes: readonly Outcome[]): boolean {
  for (let index = 1; index < outcomes.length; index += 1) {
    if (compareSeq((outcomes[index - 1] as Outcome).id, (outcomes[index] as Outcome).id) >= 0) return false
  }
  return true
}

/** The first outcome of a claim wins; a second one is too late. */
function firstOfEach(outcomes: readonly Outcome[]): readonly Outcome[] {
  const first = new Map<string, Outcome>()
  for (const outcome of outcomes) if (!first.has(outcome.id)) first.set(outcome.id, outcome)
  return [...first.values()].sort((one, other) => compareSeq(one.id, other.id))
}

function checked(outcome: Outcome): Outcome {
  if (outcome.result === 'published') return outcome
  if (outcome.result === 'failed') checkDuration('retryAfter', outcome.retryAfter)
  return { ...outcome, error: storable(outcome.error) }
}

/** A text column cannot contain NUL, and longer errors are of no use. */
export function storable(error: string): string {
  return error.slice(0, 10_000).replaceAll('\0', '\uFFFD')
}
