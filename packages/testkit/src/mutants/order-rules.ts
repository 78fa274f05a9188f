import type { ClaimOptions } from '@ackord/outbox'
import { bytesOf, type RuledRow, withinBytes } from './outbox-rules.ts'

/** A row that a claim may give, and the parked one before it. */
export interface RuledCandidate {
  readonly row: RuledRow
  readonly behind: string | undefined
}

/** One that was claimed and is neither settled nor released. */
export interface RuledHand {
  readonly member: string
  readonly token: string
}

/** Every promise of order per key as a rule of its own, so that a mutant can break exactly one. */
export interface OrderRules {
  readonly order: 'none' | 'perKey'
  /** The rows in the order in which a claim sees them. */
  readonly sort: (rows: readonly RuledRow[]) => readonly RuledRow[]
  /** Which records are one queue; `undefined` is for those in no order. */
  readonly queueOf: (row: RuledRow) => string | undefined
  /** Whether a queue gives nothing more while something of it is in hand. */
  readonly isBusy: (queue: readonly RuledRow[], isInHand: (row: RuledRow) => boolean) => boolean
  /** What a record that waits for its time holds up. */
  readonly holdsUp: 'its queue' | 'nothing' | 'everything'
  readonly behindParked: (asked: ClaimOptions['behindParked']) => ClaimOptions['behindParked']
  /** Picks from the runs, of which the first is the one whose turn it is. */
  readonly choose: (runs: readonly (readonly RuledCandidate[])[], limit: number) => readonly RuledCandidate[]
  /** Of what was picked, in that order, what the bytes of the claim allow. */
  readonly bounds: (chosen: readonly RuledCandidate[], maxBytes: number) => readonly RuledCandidate[]
  /** Whether the turn goes on from claim to claim. */
  readonly takesTurns: boolean
  /** Whether a record that is in hand can be seen as such. */
  readonly hidesHands: boolean
  readonly countsFailures: boolean
  readonly countsReleases: boolean
  readonly countsClaims: boolean
  /** The attempts of a record when its partition is taken over. */
  readonly takeOver: (row: RuledRow, inHand: boolean) => number
  readonly isLive: (until: number, now: number) => boolean
  /** How many partitions each member may have. */
  readonly share: (partitions: number, members: number) => number
  /** Whether a partition above the share is given up only when nothing of it is in hand. */
  readonly drains: boolean
  readonly givesUp: boolean
  readonly leaves: boolean
  /** Whether a claim counts as held. */
  readonly holds: (
    state: { readonly same: boolean; readonly owned: boolean; readonly inHand: boolean },
    call: 'renew' | 'release' | 'settle',
  ) => boolean
  /** Whether `renew` is a sign of life. */
  readonly renewKeeps: boolean
  /** Whether a claim is a sign of life, also while something is in hand. */
  readonly claimKeeps: boolean
  /** Off: a record's place is that of its insert. */
  readonly placesAtCommit: boolean
  /** Off: a claim looks only behind the last record it has seen. */
  readonly looksBack: boolean
  readonly filtersKeys: boolean
}

export const orderRules: OrderRules = {
  order: 'perKey',
  sort: (rows) => rows.toSorted((a, b) => a.place - b.place),
  queueOf: ({ destination, attributes: { partitionkey } }) =>
    partitionkey === undefined ? undefined : JSON.stringify([destination, partitionkey]),
  isBusy: (queue, isInHand) => queue.some(isInHand),
  holdsUp: 'its queue',
  behindParked: (asked) => asked,
  choose: inRounds,
  bounds(chosen, maxBytes) {
    const rows = withinBytes(
      chosen.map(({ row }) => row),
      maxBytes,
      bytesOf,
    )
    return chosen.slice(0, rows.length)
  },
  takesTurns: true,
  hidesHands: true,
  countsFailures: true,
  countsReleases: false,
  countsClaims: false,
  takeOver: ({ attempts }, inHand) => attempts + (inHand ? 1 : 0),
  isLive: (until, now) => until > now,
  share: (partitions, members) => Math.ceil(partitions / members),
  drains: true,
  givesUp: true,
  leaves: true,
  holds: ({ same, owned }) => same && owned,
  renewKeeps: true,
  claimKeeps: true,
  placesAtCommit: true,
  looksBack: true,
  filtersKeys: true,
}

/** One of each, then a second of each, until the limit is reached. */
function inRounds(runs: readonly (readonly RuledCandidate[])[], limit: number): readonly RuledCandidate[] {
  const chosen: RuledCandidate[] = []
  const longest = Math.max(0, ...runs.map(({ length }) => length))
  for (let round = 0; round < longest && chosen.length < limit; round += 1) {
    for (const run of runs) {
      const candidate = run[round]
      if (candidate !== undefined && chosen.length < limit) chosen.push(candidate)
    }
  }
  return chosen
}
