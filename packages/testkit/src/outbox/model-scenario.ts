import assert from 'node:assert/strict'
import type { ClaimedRecord, NewOutboxRecord, Outcome } from '@ackord/outbox'
import type * as FastCheck from 'fast-check'
import { OutboxModel } from './outbox-model.ts'
import { commit, day, failed, parked, published, record } from './outbox-records.ts'
import type { OpenOutboxWorld, OutboxScenario, OutboxWorld } from './outbox-world.ts'

export interface ModelOptions {
  /** How many random histories are tried. Default: 30. */
  readonly runs?: number | undefined
  /** The same seed gives the same histories. Default: 1. */
  readonly seed?: number | undefined
}

/** Whole tens of seconds pass, and leases end in between, so that the time the store itself takes decides nothing. */
const leases = [15_000, 35_000]
const destinations = ['a', 'b', 'c'] as const

type Operation =
  | { readonly kind: 'append'; readonly destination: string; readonly count: number; readonly commits: boolean }
  | { readonly kind: 'claim'; readonly limit: number; readonly lease: number; readonly only?: string; readonly except?: string }
  | { readonly kind: 'settle'; readonly picks: readonly number[]; readonly results: readonly Outcome['result'][]; readonly delay: number }
  | { readonly kind: 'renew'; readonly picks: readonly number[]; readonly lease: number }
  | { readonly kind: 'release'; readonly picks: readonly number[] }
  | { readonly kind: 'discard'; readonly picks: readonly number[] }
  | { readonly kind: 'rearm'; readonly picks: readonly number[] }
  | { readonly kind: 'advance'; readonly duration: number }

/** Random operations by two relays against the model; a failure is shrunk to the shortest history and printed with its seed. */
export function modelScenario(options: ModelOptions = {}): OutboxScenario {
  const { runs = 30, seed = 1 } = options
  return {
    name: 'in any history the store does as the model says, and every record ends claimable, published or parked',
    async run(open) {
      const fc = await loadFastCheck()
      const history = fc.array(operations(fc), { maxLength: 120, size: 'max' })
      await fc.assert(
        fc.asyncProperty(history, (steps) => play(open, steps)),
        { seed, numRuns: runs, endOnFailure: false },
      )
      return `${runs} histories, seed ${seed}`
    },
  }
}

/** An optional peer: only this scenario needs it. */
async function loadFastCheck(): Promise<typeof FastCheck> {
  try {
    return await import('fast-check')
  } catch (error) {
    throw new Error('The model scenario needs fast-check. Install it beside @ackord/testkit: npm install -D fast-check.', { cause: error })
  }
}

function operations(fc: typeof FastCheck): FastCheck.Arbitrary<Operation> {
  const picks = fc.array(fc.nat({ max: 11 }), { minLength: 1, maxLength: 6 })
  const lease = fc.constantFrom(...leases)
  const tens = fc.constantFrom(10_000, 20_000, 40_000)
  const results = fc.array(fc.constantFrom<Outcome['result']>('published', 'failed', 'failed', 'parked'), { minLength: 6, maxLength: 6 })
  const destination = fc.constantFrom(...destinations)
  const commits = fc.constantFrom(true, true, true, false)
  const limit = fc.integer({ min: 1, max: 6 })
  return fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({ kind: fc.constant('append' as const), destination, count: fc.integer({ min: 1, max: 3 }), commits }),
    },
    {
      weight: 6,
      arbitrary: fc.record(
        { kind: fc.constant('claim' as const), limit, lease, only: destination, except: destination },
        { requiredKeys: ['kind', 'limit', 'lease'] },
      ),
    },
    {
      weight: 4,
      arbitrary: fc.record({ kind: fc.constant('settle' as const), picks, results, delay: fc.constantFrom(0, 0, 5000, 25_000) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('renew' as const), picks, lease }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('release' as const), picks }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('rearm' as const), picks }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('discard' as const), picks }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('advance' as const), duration: tens }) },
  )
}

async function play(open: OpenOutboxWorld, steps: readonly Operation[]): Promise<void> {
  await using world = await open({ retain: false })
  const stores = [world.store, await world.another()] as const
  const model = new OutboxModel()
  const claims: ClaimedRecord[] = []
  const pick = (picks: readonly number[]) => {
    // Counted from the latest, so that many of them still hold.
    const chosen = picks.flatMap((number) => claims.at(-1 - number) ?? [])
    // One outcome per record in a call, and only claims on which the contract leaves no choice.
    return chosen.filter((one, index) => chosen.findIndex(({ id }) => id === one.id) === index && model.isCertain(one))
  }
  let appended = 0

  for (const [index, step] of steps.entries()) {
    const store = stores[index % 2 === 0 ? 0 : 1]
    if (step.kind === 'append') {
      const added = Array.from({ length: step.count }, (_, place) => record(`e${appended + place + 1}`, { destination: step.destination }))
      appended += step.count
      if (!step.commits) {
        await rollBack(world, added)
        continue
      }
      await commit(world, ...added)
      for (const { message, destination } of added) model.append(message.id ?? '', destination)
    } else if (step.kind === 'claim') {
      const { limit, lease, only, except } = step
      const options = {
        limit,
        lease,
        ...(only === undefined ? {} : { destinations: [only] }),
        ...(except === undefined ? {} : { except: [except] }),
      }
      const claimed = await store.claim(options)
      model.claimed(claimed, options)
      claims.push(...claimed)
    } else if (step.kind === 'settle') {
      const outcomes = pick(step.picks).map((one, place) => outcomeOf(one, step.results[place], step.delay))
      model.settled(outcomes, await store.settle(outcomes))
    } else if (step.kind === 'renew') {
      const chosen = pick(step.picks)
      model.renewed(chosen, step.lease, await store.renew(chosen, step.lease))
    } else if (step.kind === 'release') {
      const chosen = pick(step.picks)
      await store.release(chosen)
      model.released(chosen)
    } else if (step.kind === 'rearm') {
      const ids = pick(step.picks).map(({ id }) => id)
      model.rearmed(ids, await store.rearm({ ids }))
    } else if (step.kind === 'discard') {
      const ids = pick(step.picks).map(({ id }) => id)
      model.discarded(ids, await store.discard(ids, 'as the history says'))
    } else {
      await world.advance(step.duration)
      model.advance(step.duration)
    }
  }
  await drain(world, model)
}

async function rollBack(world: OutboxWorld, added: readonly NewOutboxRecord[]): Promise<void> {
  const refusal = new Error('rolled back')
  const undone = world.transaction(async (transaction) => {
    await transaction.append(added)
    throw refusal
  })
  await assert.rejects(undone, refusal)
}

/** Given time, all that is pending can be claimed and published, and nothing else. */
async function drain(world: OutboxWorld, model: OutboxModel): Promise<void> {
  await world.advance(day)
  model.advance(day)
  const options = { limit: 7, lease: 15_000 }
  while (model.pending.length > 0) {
    const claimed = await world.store.claim(options)
    model.claimed(claimed, options)
    const outcomes = claimed.map(published)
    model.settled(outcomes, await world.store.settle(outcomes))
  }
  assert.deepEqual(await world.store.claim(options), [])
}

function outcomeOf(claim: ClaimedRecord, result: Outcome['result'] | undefined, delay: number): Outcome {
  if (result === 'failed') return failed(claim, delay)
  return result === 'parked' ? parked(claim) : published(claim)
}
