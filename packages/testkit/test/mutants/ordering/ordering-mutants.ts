import type { ClaimedRecord, ClaimOptions, Outcome } from '@ackord/outbox'
import type { RelayPorts } from '../../../src/suites/relay/relay-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import {
  choosing,
  claimChosen,
  claimingWith,
  type Decorate,
  LatestClaims,
  type Outbox,
  overriding,
  recordsOf,
  showing,
  viewsOf,
  wrongAges,
} from '../outbox/decorated-outbox.ts'
import { brokenOrder, orderingAs } from './decorated-ordered-outbox.ts'

/** Longer than any scenario lasts. */
const forever = 1e15

const allPartitions = Array.from({ length: 256 }, (_, partition) => partition)

/** Each record gets a separate key, so that a claim overtakes the records of a key that are in flight. */
const overtaking = orderingAs(({ message, ...record }) => ({
  ...record,
  message: message.withAttributes({ partitionkey: `${message.attributes['partitionkey']} ${message.id}` }),
}))

/** Members never expire. */
const membersLiveForever: Decorate = overriding((store) => ({
  claim: (options) => store.claim({ ...options, lease: forever }),
  renew: (claims) => store.renew(claims, forever),
}))

const leavingDoesNothing: Decorate = overriding(() => ({ leave: async () => {} }))

/** The first member is the only one that claims, until it leaves or its lease expires. */
const firstMemberKeepsAll: Decorate = ({ now }) => {
  let owner: { readonly store: Outbox; until: number } | undefined
  return {
    store: (store) => ({
      async claim(options) {
        if (owner === undefined || owner.until <= now()) owner = { store, until: 0 }
        if (owner.store !== store) return []
        owner.until = now() + options.lease
        return await store.claim(options)
      },
      async leave() {
        if (owner?.store === store) owner = undefined
        await store.leave?.()
      },
    }),
  }
}

/** A new member takes partitions over while their records are in flight: the claims of the others are released behind their back. */
const handingOverInFlight: Decorate = () => {
  const claims = new Map<Outbox, ClaimedRecord[]>()
  return {
    store: (store) => ({
      async claim(options) {
        for (const [other, claimed] of claims) if (other !== store) await other.release(claimed.splice(0))
        const claimed = await store.claim(options)
        claims.set(store, [...(claims.get(store) ?? []), ...claimed])
        return claimed
      },
    }),
  }
}

/** One destination in the store, so that a key is the same key for all of them. */
const oneKeyForAllDestinations = orderingAs((record) => ({ ...record, destination: 'all' }))

const oldestFirst = choosing((found, { limit }) => found.toSorted(byId).slice(0, limit))
const oneKeyAfterTheOther = choosing((found, { limit }) => runsOf(found).flat().slice(0, limit))
const oneRecordPerKey = choosing((found, { limit }) =>
  runsOf(found)
    .flatMap((run) => run.slice(0, 1))
    .slice(0, limit),
)

const relayWithoutOrder: Decorate = overriding(() => ({ capabilities: { order: 'none', delay: true, preLease: false } }))

/** A failed record gets a separate key, so that the records behind it do not wait. */
const failedRecordIsSkipped: Decorate = overriding((store) => ({
  settle: (outcomes) =>
    settleFailed(store, outcomes, async ({ id, retryAfter }) => {
      await store.rearm({ ids: [id] }, { attributes: { partitionkey: `failed ${id}` } }, { delay: retryAfter, keepAttempts: true })
    }),
}))

const failuresAreNotCounted: Decorate = overriding((store) => ({
  settle: (outcomes) =>
    settleFailed(store, outcomes, async ({ id, retryAfter }) => {
      await store.rearm({ ids: [id] }, {}, { delay: retryAfter })
    }),
}))

const waitingRecordHoldsUpAll: Decorate = overriding((store) => ({
  async claim(options) {
    const { records } = await store.list({ state: 'waiting' }, { limit: 1 })
    return records.length > 0 ? [] : await store.claim(options)
  },
}))

const delayedRecordIsSkipped: Decorate = orderingAs((record) =>
  (record.delay ?? 0) > 0
    ? { ...record, message: record.message.withAttributes({ partitionkey: `delayed ${record.message.id}` }) }
    : record,
)

const claimsAreCounted = countingClaims()

/** Claims that a lost owner had not settled are not counted as attempts. */
const takeoverIsNotCounted: Decorate = countingTakeovers((inFlight) => (inFlight ? -1 : 0))

function behindParked(change: (asked: ClaimOptions['behindParked']) => ClaimOptions['behindParked']): Decorate {
  return claimingWith((options) => ({ ...options, behindParked: change(options.behindParked) }))
}

/** Calls of this kind are made as the current owner if the caller has lost the record. */
function ignoringOwners(call: 'renew' | 'release' | 'settle'): Decorate {
  return () => {
    const latest = new LatestClaims()
    const ownerOf = (id: string, store: Outbox) => latest.storeOf(id) ?? store
    return {
      store: (store) => ({
        claim: (options) => latest.claim(store, options),
        ...(call === 'renew' && { renew: async (claims) => claims.map(() => true) }),
        ...(call === 'release' && {
          async release(claims) {
            for (const claim of claims) await ownerOf(claim.id, store).release(latest.impersonating([claim]))
          },
        }),
        ...(call === 'settle' && {
          async settle(outcomes) {
            const answers: ('applied' | 'lost')[] = []
            for (const outcome of outcomes) answers.push(...(await ownerOf(outcome.id, store).settle(latest.impersonating([outcome]))))
            return answers
          },
        }),
      }),
    }
  }
}

/** The in-memory store with order per key with one defect each, or a relay that ignores the order, and the scenario that must catch it. */
export const orderingMutants: readonly Mutant<RelayPorts>[] = [
  ...brokenOrder('a claim returns a run of each key, from its first record on, in the order of the commits', {
    'the newest come first': overriding((store) => ({ claim: async (options) => (await store.claim(options)).toReversed() })),
    'a run is one record': oneRecordPerKey,
  }),
  ...brokenOrder('no claim returns more of a key until its whole run is settled or released', {
    'records in flight are skipped': overtaking,
    'a key is free when the first record of its run is settled': () => {
      const inFlight = new Map<string, ClaimedRecord>()
      const again: ClaimedRecord[] = []
      return {
        store: (store) => ({
          async claim(options) {
            const claimed = [...again.splice(0), ...(await store.claim(options))]
            for (const one of claimed) inFlight.set(one.id, one)
            return claimed
          },
          async settle(outcomes) {
            const keys = new Set(outcomes.map(({ id }) => keyOf(inFlight.get(id))))
            for (const { id } of outcomes) inFlight.delete(id)
            again.push(...[...inFlight.values()].filter((one) => keys.has(keyOf(one))))
            return await store.settle(outcomes)
          },
        }),
      }
    },
  }),
  ...brokenOrder('a failed record holds up its own key until it is due, and no other key', {
    'a failed record is skipped': failedRecordIsSkipped,
    'a failed record holds up all': waitingRecordHoldsUpAll,
  }),
  ...brokenOrder("a claim reports how long ago each record was stored, by the store's clock, with a key or without", wrongAges),
  ...brokenOrder('an attempt counts when a record is settled as failed, not when it is claimed or released', {
    'failures are not counted': failuresAreNotCounted,
    'releases are counted': overriding((store) => ({
      async release(claims) {
        await store.settle(claims.map(({ id, token }) => ({ id, token, result: 'failed', error: 'released', retryAfter: 0 })))
      },
    })),
    'claims are counted': claimsAreCounted,
  }),
  ...brokenOrder('a delayed record holds up the records behind it, but not those before it', {
    'a delayed record is skipped': delayedRecordIsSkipped,
    'a delayed record holds up those before it too': waitingRecordHoldsUpAll,
  }),
  ...brokenOrder('a claim is filled evenly: one record each of many keys, longer runs of few keys', {
    'one key after the other': oneKeyAfterTheOther,
    'never more than one': oneRecordPerKey,
  }),
  ...brokenOrder('a key with 5,000 records does not starve 50 others, however short the claims are', {
    'the oldest first': oldestFirst,
    'the first keys always come first, with whole runs': oneKeyAfterTheOther,
  }),
  ...brokenOrder('a claim with a limit in bytes cuts runs at their end, skips no record, and returns a larger record alone', {
    'maxBytes is ignored': claimingWith((options) => ({ ...options, maxBytes: undefined })),
    'a record that does not fit is skipped': choosing((found, { maxBytes = Infinity }) =>
      found
        .filter(({ message }, index) => index === 0 || message.data.byteLength < maxBytes / (index + 1))
        .slice(0, 2)
        .toReversed(),
    ),
    'a record that is too large is never claimed': overriding((store) => ({
      async claim(options) {
        const claimed = await store.claim(options)
        const tooLarge = claimed.filter(({ message }) => message.data.byteLength > (options.maxBytes ?? Infinity))
        await store.release(tooLarge)
        return claimed.filter((one) => !tooLarge.includes(one))
      },
    })),
  }),
  ...brokenOrder('records without a key have no order and are not held up by keys that wait', {
    'records without a key are one queue': orderingAs(({ message, ...record }) => ({
      ...record,
      message: message.withAttributes({ partitionkey: message.attributes['partitionkey'] ?? 'none' }),
    })),
  }),
  ...brokenOrder('one key for two destinations is two queues: neither holds up the other', {
    'a key is one queue for all destinations': oneKeyForAllDestinations,
  }),
  ...brokenOrder('a destination with 2,000 records leaves room for another destination in every claim', {
    'the oldest first': oldestFirst,
  }),
  ...brokenOrder('records in flight are shown in their previous state, because single records have no leases', {
    'records in flight are shown as leased': () => {
      const latest = new LatestClaims()
      return {
        store: (store) => ({
          claim: (options) => latest.claim(store, options),
          ...viewsOf(store, (record) => (latest.get(record.id) === undefined ? record : { ...record, state: 'leased' })),
        }),
      }
    },
    'a claim is an attempt': claimsAreCounted,
  }),
  ...[2, 4].flatMap((count) =>
    brokenOrder(`${count} members get even shares, and together they find every record`, {
      'the first member keeps all partitions': firstMemberKeepsAll,
      'shares are too small': choosing((found) => found.filter((_, index) => index % (count + 1) !== 0)),
    }),
  ),
  ...brokenOrder('a member hands over immediately when it leaves and after its lease when it dies, and a new member gets its share', {
    'leaving does nothing': leavingDoesNothing,
    'members never expire': membersLiveForever,
    'the first member keeps all partitions': firstMemberKeepsAll,
  }),
  ...brokenOrder('partitions above the share are drained before they are handed over: no key has two owners', {
    'a partition is handed over while its records are in flight': handingOverInFlight,
    'nothing is handed over': firstMemberKeepsAll,
  }),
  ...[3, 17].flatMap((seed) =>
    brokenOrder(`whatever four members do, no key has two owners and each key is settled in order (seed ${seed})`, {
      'a partition is handed over while its records are in flight': handingOverInFlight,
      'records in flight are skipped': overtaking,
    }),
  ),
  ...brokenOrder('a stale owner cannot settle, renew or release', {
    'any member may settle': ignoringOwners('settle'),
    'any member may renew': ignoringOwners('renew'),
    'any member may release': ignoringOwners('release'),
    'the token counts, the time does not': () => {
      const latest = new LatestClaims()
      return {
        store: (store) => ({
          claim: (options) => latest.claim(store, options),
          renew: async (claims) => claims.map(({ id, token }) => latest.get(id)?.token === token),
        }),
      }
    },
  }),
  ...brokenOrder('a member that returns after its lease starts over: its earlier claims are lost', {
    'the member continues where it was': membersLiveForever,
  }),
  ...brokenOrder('a takeover counts an attempt for the records that the lost owner had in flight, and for no others', {
    'nothing is counted': takeoverIsNotCounted,
    'everything is counted': countingTakeovers((inFlight) => (inFlight ? 0 : 1)),
  }),
  ...brokenOrder('a member that claims and then pauses for almost its lease keeps its records in flight', {
    'a claim does not extend the membership while records are in flight': extendingBy('renew'),
  }),
  ...brokenOrder('a member that only renews keeps its records in flight', {
    'only a claim extends the membership': extendingBy('claim'),
  }),
  ...brokenOrder('each member knows which partitions it owns, and claims only records of these partitions', {
    'each member seems to own all partitions': overriding(() => ({ ownedPartitions: () => allPartitions })),
    'a record has another partition than that of its key': showing(({ partition = 0, ...record }) => ({
      ...record,
      partition: (partition + 128) % allPartitions.length,
    })),
    'records have no partition': showing(({ partition: _, ...record }) => record),
  }),
  ...brokenOrder('a member that leaves owns no partitions', {
    'a member remembers what it owned': overriding((store) => {
      let owned: readonly number[] = []
      return {
        ownedPartitions() {
          const now = store.ownedPartitions?.() ?? []
          if (now.length > 0) owned = now
          return owned
        },
        async leave() {
          owned = store.ownedPartitions?.() ?? []
          await store.leave?.()
        },
      }
    }),
    'leaving does nothing': leavingDoesNothing,
  }),
  ...brokenOrder('relays report which partitions they own, and no partition has two owners', {
    'each relay reports all partitions': overriding(() => ({ ownedPartitions: () => allPartitions })),
    'no relay reports any': overriding(() => ({ ownedPartitions: () => undefined })),
  }),
  ...brokenOrder(
    'transactions with different keys that commit in reverse order lose nothing and leave nothing stuck, whatever is claimed in between',
    {
      'a claim looks only behind the last record it has seen': insertOrdered('only newer'),
    },
  ),
  ...brokenOrder('records of one key are claimed in the order of the commits, not of the inserts', {
    'the position is that of the insert': insertOrdered('all'),
  }),
  ...brokenOrder('the records behind a parked record are returned, withheld or marked, as the claim asks', {
    'all are given': behindParked(() => 'given'),
    'all are kept': behindParked(() => 'kept'),
    'kept is marked': behindParked((asked) => (asked === 'kept' ? 'marked' : asked)),
  }),
  ...brokenOrder('a parked record in the middle of a key holds up the records behind it, but not those before it', {
    'all are given': behindParked(() => 'given'),
    'marked is kept': behindParked((asked) => (asked === 'marked' ? 'kept' : asked)),
  }),
  ...brokenOrder('a discarded record no longer holds up its key', {
    'all are given': behindParked(() => 'given'),
  }),
  ...brokenOrder('a record that an operator cancelled no longer holds up its key', {
    'it is only said to be deleted': overriding(() => ({ cancelWaiting: async (which) => (Array.isArray(which) ? which.length : 0) })),
  }),
  ...brokenOrder('records can be listed and re-armed by ordering key, and are claimed before the records behind them', {
    'the ordering key is ignored': overriding((store) => ({
      list: (filter, page) => store.list({ ...filter, orderingKey: undefined }, page),
    })),
  }),
  ...brokenOrder("with 'park' the records behind a parked record are published without it", {
    'a parked record holds up its key': behindParked(() => 'kept'),
  }),
  ...brokenOrder("with 'block' a key waits behind its parked record until the record is re-armed, then continues in order", {
    'records behind it go on': behindParked(() => 'given'),
  }),
  ...brokenOrder("with 'parkKey' the records behind a parked record are parked too, including later ones, until all are re-armed", {
    'later records go on': behindParked(() => 'given'),
    'later records wait': behindParked(() => 'kept'),
  }),
  ...[1, 2, 4].flatMap((count) =>
    brokenOrder(`with ${count} relay${count > 1 ? 's' : ''} every key arrives in order, once, across failures and retries`, {
      'a relay that ignores the order sends a run at once': relayWithoutOrder,
      'a failed record is skipped': failedRecordIsSkipped,
    }),
  ),
  ...[2, 4].flatMap((count) =>
    [1, 2].flatMap((seed) =>
      brokenOrder(
        `while ${count} relays start, stall, stop and die, every key arrives in order, and twice only after a takeover (seed ${seed})`,
        {
          'a relay that ignores the order sends a run at once': relayWithoutOrder,
          'members never expire': membersLiveForever,
          // With four relays and seed 1 no takeover leaves a duplicate, so there is no attempt to miss.
          ...((count !== 4 || seed !== 1) && { 'a takeover is not counted as an attempt': takeoverIsNotCounted }),
        },
      ),
    ),
  ),
  ...brokenOrder('a relay that stops hands its keys to the others immediately, without a duplicate', {
    'leaving does nothing': leavingDoesNothing,
  }),
  ...brokenOrder('a settle that fails for longer than the lease, while everything else works, leaves no key stuck', {
    'leaving does nothing': leavingDoesNothing,
  }),
  ...brokenOrder('a record that kills its relays is parked in the end, and its key continues', {
    'a takeover is not counted as an attempt': takeoverIsNotCounted,
  }),
  ...brokenOrder('a destination that is down stops its own records, but not those of the same key for another destination', {
    'a key is one queue for all destinations': oneKeyForAllDestinations,
  }),
  ...brokenOrder('a record for which its destination seems to be down holds up its own key only, and is parked', {
    'a failed record is skipped': failedRecordIsSkipped,
    'failures are not counted': failuresAreNotCounted,
  }),
  ...brokenOrder('a relay with a slow broker and a key with 2,000 records does not delay 50 other keys', {
    'the oldest first': oldestFirst,
  }),
]

/** Settles failed outcomes as parked, and lets `then` put the record back. */
async function settleFailed(
  store: Outbox,
  outcomes: readonly Outcome[],
  then: (outcome: Extract<Outcome, { result: 'failed' }>) => Promise<void>,
): Promise<readonly ('applied' | 'lost')[]> {
  const answers = await store.settle(
    outcomes.map((outcome) =>
      outcome.result === 'failed' ? { id: outcome.id, token: outcome.token, result: 'parked', error: outcome.error } : outcome,
    ),
  )
  for (const [index, outcome] of outcomes.entries()) if (outcome.result === 'failed' && answers[index] === 'applied') await then(outcome)
  return answers
}

/** Every claim counts as an attempt, beside the failures. */
function countingClaims(): Decorate {
  return () => {
    const claims = new Map<string, number>()
    const claimsOf = (id: string) => claims.get(id) ?? 0
    return {
      store: (store) => ({
        async claim(options) {
          const claimed = await store.claim(options)
          const shown = claimed.map((one) => ({ ...one, attempts: one.attempts + claimsOf(one.id) }))
          for (const { id } of claimed) claims.set(id, claimsOf(id) + 1)
          return shown
        },
        ...viewsOf(store, (record) => ({ ...record, attempts: record.attempts + claimsOf(record.id) })),
      }),
    }
  }
}

/** Changes the attempts of each record that a second member claims, by whether a lost owner had it in flight. */
function countingTakeovers(more: (inFlight: boolean) => number): Decorate {
  return () => {
    const owners = new Map<string, Outbox>()
    const changes = new Map<string, number>()
    const members = new Set<Outbox>()
    return {
      store: (store) => {
        const settled = (claims: readonly { readonly id: string }[]) => {
          for (const { id } of claims) if (owners.get(id) === store) owners.delete(id)
        }
        return {
          async claim(options) {
            const isTakeover = members.size > 0 && !members.has(store)
            const claimed = await store.claim(options)
            if (claimed.length > 0) members.add(store)
            for (const { id } of claimed) {
              const inFlight = owners.has(id)
              if (isTakeover || inFlight) changes.set(id, (changes.get(id) ?? 0) + more(inFlight))
              owners.set(id, store)
            }
            return claimed.map((one) => ({ ...one, attempts: one.attempts + (changes.get(one.id) ?? 0) }))
          },
          async settle(outcomes) {
            settled(outcomes)
            return await store.settle(outcomes)
          },
          async release(claims) {
            settled(claims)
            await store.release(claims)
          },
        }
      },
    }
  }
}

/** Only calls of this kind extend the membership, and a claim while nothing is in flight. */
function extendingBy(call: 'claim' | 'renew'): Decorate {
  return ({ now }) => ({
    store: (store) => {
      let until = 0
      const remaining = () => Math.max(1, until - now())
      return {
        async claim(options) {
          if (call === 'claim' || until <= now()) until = now() + options.lease
          return await store.claim({ ...options, lease: remaining() })
        },
        async renew(claims, lease) {
          if (call === 'renew') until = now() + lease
          return await store.renew(claims, remaining())
        },
      }
    },
  })
}

/** Claims by the order of the inserts instead of the commits. `only newer`: a claim never returns to records before the latest one that it has seen. */
function insertOrdered(range: 'all' | 'only newer'): Decorate {
  return () => {
    const inserts = new Map<string, number>()
    const insertedAs = ({ message }: ClaimedRecord) => inserts.get(message.id ?? '') ?? 0
    let seen = 0
    return {
      transaction: (transaction) => ({
        async append(records) {
          for (const { message } of recordsOf(records)) inserts.set(message.id ?? '', inserts.size + 1)
          await transaction.append(records)
        },
      }),
      store: (store) => ({
        claim: (options) =>
          claimChosen(store, options, (found) => {
            if (range === 'all') return found.toSorted((a, b) => insertedAs(a) - insertedAs(b))
            const newer = found.filter((one) => insertedAs(one) > seen)
            seen = Math.max(seen, ...newer.map(insertedAs))
            return newer
          }),
      }),
    }
  }
}

function byId(a: ClaimedRecord, b: ClaimedRecord): number {
  return Number(a.id) - Number(b.id)
}

function keyOf(claimed: ClaimedRecord | undefined): string {
  return JSON.stringify([claimed?.destination, claimed?.message.attributes['partitionkey'] ?? claimed?.id])
}

/** The records of each key, in the order of the claim. */
function runsOf(found: readonly ClaimedRecord[]): readonly (readonly ClaimedRecord[])[] {
  const runs = new Map<string, ClaimedRecord[]>()
  for (const one of found) {
    const run = runs.get(keyOf(one)) ?? []
    run.push(one)
    runs.set(keyOf(one), run)
  }
  return [...runs.values()]
}
