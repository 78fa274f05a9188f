import type { Logger } from '@ackord/core'
import { checkDuration } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, Outcome } from '@ackord/outbox'
import { compareSeq } from './claim-token.ts'
import { readMessage } from './outbox-row.ts'
import type { Row } from './row.ts'

/** What a claimed row is to the relay; `unreadable`: nothing, and it is to be parked. */
export type Claimed = { readonly record: ClaimedRecord } | { readonly unreadable: Outcome }

/** `attempts` with this one. */
export function readClaimed(row: Row, claim: Claim, attempts: number, logger: Logger): Claimed {
  const { id, token } = claim
  const { message, problem } = readMessage(row)
  if (problem === undefined) {
    return { record: { id, token, destination: String(row['destination']), message, attempts, createdAt: Number(row['created_at']) } }
  }
  logger.error({ id: row['id'], seq: id }, `An outbox record is parked, because it cannot be read: ${problem}`)
  return { unreadable: { id, token, result: 'parked', error: problem } }
}

export interface Settling<Placed> {
  /** Outcomes, each with the place of its row; `undefined` for that of no claim of this store, or of none any more. */
  readonly place: (outcomes: readonly Outcome[]) => readonly (Placed | undefined)[]
  /** Gives the ids whose claim held. */
  readonly apply: (placed: readonly Placed[]) => Promise<ReadonlySet<string>>
}

/** Settles what is claimed, sorted by seq, so that no two callers wait for each other in a circle. Answers for each outcome, in their order. */
export async function settleOutcomes<Placed>(
  outcomes: readonly Outcome[],
  { place, apply }: Settling<Placed>,
): Promise<readonly ('applied' | 'lost')[]> {
  const deciding = isAscending(outcomes) ? outcomes : firstOfEach(outcomes)
  const placed = place(deciding.map(checked)).filter((found) => found !== undefined)
  if (placed.length === 0) return outcomes.map(() => 'lost')
  const applied = await apply(placed)
  const counted = deciding === outcomes ? undefined : new Set(deciding)
  return outcomes.map((outcome) => (applied.has(outcome.id) && counted?.has(outcome) !== false ? 'applied' : 'lost'))
}

function isAscending(outcomes: readonly Outcome[]): boolean {
  for (let index = 1; index < outcomes.length; index += 1) {
    if (compareSeq((outcomes[index - 1] as Outcome).id, (outcomes[index] as Outcome).id) >= 0) return false
  }
  return true
}

/** The first outcome of a claim decides; a second one comes too late. */
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

/** A text column takes no NUL, and nobody reads more than this. */
export function storable(error: string): string {
  return error.slice(0, 10_000).replaceAll('\0', '\uFFFD')
}
