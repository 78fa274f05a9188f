import type { Mutant } from '../run/scenario.ts'
import type { RelayPorts } from '../suites/relay/relay-world.ts'
import { type OrderRules, orderRules } from './order-rules.ts'
import { brokenOrder } from './ruled-ordered-world.ts'

const { queueOf, choose, bounds, holds } = orderRules

const overtakes = { isBusy: () => false }
const countsAlive = { isLive: (until: number) => until > 0 }
const keyAlone: Partial<OrderRules> = { queueOf: ({ attributes: { partitionkey } }) => partitionkey?.toString() }
const oldestFirst: Partial<OrderRules> = {
  choose: (runs, limit) =>
    runs
      .flat()
      .toSorted((a, b) => a.row.place - b.row.place)
      .slice(0, limit),
}
const relayIsBlind = { order: 'none' } as const

/** Broken stores, or a relay that does not know of order, each with the scenario that must notice. */
export const orderMutants: readonly Mutant<RelayPorts>[] = [
  ...brokenOrder('a claim gives each key a run from its first record on, in the order of the commits', {
    'the newest come first': { sort: (rows) => rows.toSorted((a, b) => b.place - a.place) },
    'a run is one record': { choose: (runs, limit) => choose(firstsOf(runs), limit) },
  }),
  ...brokenOrder('no more of a key is given to anybody until its whole run is settled or released', {
    'what is in hand is skipped': overtakes,
    'a key is free when the first of its run is settled': {
      isBusy: (queue, isInHand) => queue.slice(0, 1).some(isInHand) && queue.length > 3,
    },
  }),
  ...brokenOrder('a record that failed holds up its own key until its time, and no other', {
    'a failed record is skipped': { holdsUp: 'nothing' },
    'a failed record holds up all': { holdsUp: 'everything' },
  }),
  ...brokenOrder('an attempt counts when it is settled as failed, and neither when it is claimed nor when it is released', {
    'failures are not counted': { countsFailures: false },
    'releases are counted': { countsReleases: true },
    'claims are counted': { countsClaims: true },
  }),
  ...brokenOrder('a record that waits for its time holds up those behind it, and not those before it', {
    'a delayed record is skipped': { holdsUp: 'nothing' },
    'a delayed record holds up those before it too': { holdsUp: 'everything' },
  }),
  ...brokenOrder('a claim is filled evenly: one of each of many keys, longer runs of few', {
    'one key after the other': { choose: (runs, limit) => runs.flat().slice(0, limit) },
    'never more than one': { choose: (runs, limit) => choose(firstsOf(runs), limit) },
  }),
  ...brokenOrder('a key with 5,000 records does not starve 50 others, however short the claims are', {
    'the oldest first': oldestFirst,
    'the first keys always have their turn first, and whole runs': {
      takesTurns: false,
      choose: (runs, limit) => runs.flat().slice(0, limit),
    },
  }),
  ...brokenOrder('a claim with a limit in bytes cuts runs at their end, skips nothing, and gives a larger record alone', {
    'maxBytes is ignored': { bounds: (chosen) => chosen },
    'what does not fit is skipped': {
      bounds: (chosen, maxBytes) =>
        chosen.filter(({ row }, index) => index === 0 || row.data.byteLength < maxBytes / (index + 1)).slice(0, 2),
    },
    'a record that is too large is never given': {
      bounds: (chosen, maxBytes) => bounds(chosen, maxBytes).filter(({ row }) => row.data.byteLength <= maxBytes),
    },
  }),
  ...brokenOrder('records without a key are in no order and flow beside, whatever the keys wait for', {
    'those without a key are one queue': { queueOf: (row) => queueOf(row) ?? 'none' },
  }),
  ...brokenOrder('one key for two destinations is two: neither holds up the other', {
    'a key is a key': keyAlone,
  }),
  ...brokenOrder('a destination with 2,000 records leaves room for another in every claim', {
    'the oldest first': oldestFirst,
  }),
  ...brokenOrder('what is in hand is shown as what it was: there are no leases of records', {
    'what is in hand is shown as leased': { hidesHands: false },
    'a claim is an attempt': { countsClaims: true },
  }),
  ...[2, 4].flatMap((count) =>
    brokenOrder(`${count} members come to even shares, and together they find everything`, {
      'the first keeps all': { givesUp: false },
      'shares are too small': { share: (partitions, members) => Math.floor(partitions / (members + 1)) },
    }),
  ),
  ...brokenOrder('a member that leaves hands over at once, one that dies when its lease is over, and one that comes gets its share', {
    'leaving changes nothing': { leaves: false },
    'the dead live': countsAlive,
    'the first keeps all': { givesUp: false },
  }),
  ...brokenOrder('what is above a share is drained before it is handed over: no key is in two hands', {
    'a partition is handed over with what is in hand': { drains: false },
    'nothing is handed over': { givesUp: false },
  }),
  ...[3, 17].flatMap((seed) =>
    brokenOrder(`whatever four members do, no key is in two hands and each is settled in order (seed ${seed})`, {
      'a partition is handed over with what is in hand': { drains: false },
      'what is in hand is skipped': overtakes,
    }),
  ),
  ...brokenOrder('a stale owner settles nothing, renews nothing and releases nothing', {
    'whoever asks may settle': { holds: (state, call) => (call === 'settle' ? state.inHand : holds(state, call)) },
    'whoever asks may renew': { holds: (state, call) => call === 'renew' || holds(state, call) },
    'whoever asks may release': { holds: (state, call) => (call === 'release' ? state.inHand : holds(state, call)) },
    'only the token counts, not the time': { holds: ({ same }) => same },
  }),
  ...brokenOrder('one that comes back after its lease begins anew: what it had is lost, also to itself', {
    'it goes on where it was': countsAlive,
  }),
  ...brokenOrder('whoever takes over counts an attempt for what the lost owner had in hand, and for nothing else', {
    'nothing is counted': { takeOver: ({ attempts }) => attempts },
    'everything is counted': { takeOver: ({ attempts }) => attempts + 1 },
  }),
  ...brokenOrder('a member that claims and then pauses for almost its lease keeps what it has in hand', {
    'while something is in hand a claim is no sign of life': { claimKeeps: false },
  }),
  ...brokenOrder('a member that only renews keeps what it has in hand', {
    'only a claim is a sign of life': { renewKeeps: false },
  }),
  ...brokenOrder(
    'transactions with different keys that commit in reverse lose nothing, and nothing is stuck, whatever is claimed in between',
    {
      'a claim looks only behind the last record it has seen': { placesAtCommit: false, looksBack: false },
    },
  ),
  ...brokenOrder('transactions with one key are given in the order of their commits, not of their inserts', {
    'the place is that of the insert': { placesAtCommit: false },
  }),
  ...brokenOrder('those behind a parked record are given, kept or marked with it, as the claim asks', {
    'all are given': { behindParked: () => 'given' },
    'all are kept': { behindParked: () => 'kept' },
    'kept is marked': { behindParked: (asked) => (asked === 'kept' ? 'marked' : asked) },
  }),
  ...brokenOrder('a parked record in the midst of a key keeps back those behind it, and not those before it', {
    'all are given': { behindParked: () => 'given' },
    'marked is kept': { behindParked: (asked) => (asked === 'marked' ? 'kept' : asked) },
  }),
  ...brokenOrder('what is discarded holds up nobody any more', {
    'all are given': { behindParked: () => 'given' },
  }),
  ...brokenOrder('records are listed and re-armed by their ordering key, and come again before those behind them', {
    'the ordering key is ignored': { filtersKeys: false },
  }),
  ...brokenOrder("with 'park' those behind a record that is parked go on without it", {
    'a parked record holds up its key': { behindParked: () => 'kept' },
  }),
  ...brokenOrder("with 'block' a key waits behind its parked record until that is re-armed, then goes on in order", {
    'those behind it go on': { behindParked: () => 'given' },
  }),
  ...brokenOrder("with 'parkKey' those behind a parked record are parked with it, also later ones, until all are re-armed", {
    'later ones go on': { behindParked: () => 'given' },
    'later ones wait': { behindParked: () => 'kept' },
  }),
  ...[1, 2, 4].flatMap((count) =>
    brokenOrder(`with ${count} relay${count > 1 ? 's' : ''} every key arrives in order, once, across failures and retries`, {
      'a relay that knows nothing of order sends a run at once': relayIsBlind,
      'a failed record is skipped': { holdsUp: 'nothing' },
    }),
  ),
  ...[2, 4].flatMap((count) =>
    [1, 2].flatMap((seed) =>
      brokenOrder(
        `while ${count} relays come, stall, stop and die, every key arrives in order, and twice only after a takeover (seed ${seed})`,
        {
          'a relay that knows nothing of order sends a run at once': relayIsBlind,
          'what a lost owner had in hand is not counted': { takeOver: ({ attempts }) => attempts },
          'the dead live': countsAlive,
        },
      ),
    ),
  ),
  ...brokenOrder('a relay that stops gives its keys to the others at once, without a duplicate', {
    'leaving changes nothing': { leaves: false },
  }),
  ...brokenOrder('a settle that fails for longer than the lease, while all else works, leaves no key stuck', {
    'leaving changes nothing': { leaves: false },
  }),
  ...brokenOrder('a record that ends its relays is parked in the end, and its key goes on', {
    'what a lost owner had in hand is not counted': { takeOver: ({ attempts }) => attempts },
  }),
  ...brokenOrder('a destination that is down stops its own records, and not those of the same key for another', {
    'a key is a key': keyAlone,
  }),
  ...brokenOrder('a record for which its destination fails as if it were down holds up its own key only, and is parked', {
    'a failed record is skipped': { holdsUp: 'nothing' },
    'failures are not counted': { countsFailures: false },
  }),
  ...brokenOrder('a relay with a slow broker and a key of 2,000 records does not keep 50 other keys waiting', {
    'the oldest first': oldestFirst,
  }),
]

function firstsOf<T>(runs: readonly (readonly T[])[]): (readonly T[])[] {
  return runs.map((run) => run.slice(0, 1))
}
