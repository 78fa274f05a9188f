import { checkDuration } from '@ackord/core/internal'
import type { Outcome } from '@ackord/outbox'
import { compareSeq } from './compare-seq.ts'

export interface Settling<Placed> {
  /** An outcome with the place of its row; `undefined` if it is that of no claim of this store, or of none any more. */
  readonly place: (outcome: Outcome) => Placed | undefined
  /** Gives the ids whose claim held. */
  readonly apply: (placed: readonly Placed[]) => Promise<ReadonlySet<string>>
}

/** Settles what is claimed, sorted by seq, so that no two callers wait for each other in a circle. Answers for each outcome, in their order. */
export async function settleOutcomes<Placed>(
  outcomes: readonly Outcome[],
  { place, apply }: Settling<Placed>,
): Promise<readonly ('applied' | 'lost')[]> {
  // The first outcome of a claim decides; a second one comes too late.
  const first = new Map<string, Outcome>()
  for (const outcome of outcomes) if (!first.has(outcome.id)) first.set(outcome.id, outcome)
  const placed: Placed[] = []
  for (const outcome of [...first.values()].sort((one, other) => compareSeq(one.id, other.id))) {
    const found = place(checked(outcome))
    if (found !== undefined) placed.push(found)
  }
  if (placed.length === 0) return outcomes.map(() => 'lost')
  const applied = await apply(placed)
  return outcomes.map((outcome) => (applied.has(outcome.id) && first.get(outcome.id) === outcome ? 'applied' : 'lost'))
}

function checked(outcome: Outcome): Outcome {
  if (outcome.result === 'published') return outcome
  if (outcome.result === 'failed') checkDuration('retryAfter', outcome.retryAfter)
  return { ...outcome, error: storable(outcome.error) }
}

/** A text column takes no NUL, and nobody reads more than this. */
function storable(error: string): string {
  return error.slice(0, 10_000).replaceAll('\0', '\uFFFD')
}
