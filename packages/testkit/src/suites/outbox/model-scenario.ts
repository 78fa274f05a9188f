import assert from 'node:assert/strict'
import type { Claim, ClaimedRecord, ClaimOptions, NewOutboxRecord, Outcome } from '@ackord/outbox'
import type * as FastCheck from 'fast-check'
import {
  commit,
  day,
  failed,
  type OpenOutboxWorld,
  type OutboxScenario,
  type OutboxWorld,
  parked,
  published,
  record,
} from './outbox-world.ts'

export interface ModelOptions {
  /** The number of random histories. Default: 30. */
  readonly runs?: number | undefined
  /** The same seed gives the same histories. Default: 1. */
  readonly seed?: number | undefined
}

/** Time advances in multiples of ten seconds, and leases end in between, so that the time the store itself takes does not matter. */
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

/** Compares random operations of two relays with the model. A failure is shrunk to the shortest history and printed with its seed. */
export function modelScenario(options: ModelOptions = {}): OutboxScenario {
  const { runs = 30, seed = 1 } = options
  return {
    name: 'the store behaves as the model in random histories, and every record ends claimable, published or parked',
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

/** fast-check is an optional peer dependency, because only this scenario needs it. */
async function loadFastCheck(): Promise<typeof FastCheck> {
  try {
    return await import('fast-check')
  } catch (error) {
    throw new Error('The model scenario needs fast-check. Install it: npm install -D fast-check.', { cause: error })
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
    // Counted from the latest claim, so that many of the picked claims are still valid.
    const chosen = picks.flatMap((number) => claims.at(-1 - number) ?? [])
    // One outcome per record in a call, and only claims for which the contract allows one answer.
    return chosen.filter((one, index) => chosen.findIndex(({ id }) => id === one.id) === index && model.isCertain(one))
  }
  let appended = 0

  for (const [index, step] of steps.entries()) {
    const store = stores[index % 2 === 0 ? 0 : 1]
    if (step.kind === 'append') {
      const added = Array.from({ length: step.count }, (_, position) =>
        record(`e${appended + position + 1}`, { destination: step.destination }),
      )
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
      const outcomes = pick(step.picks).map((one, position) => outcomeOf(one, step.results[position], step.delay))
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

/** After enough time, all pending records can be claimed and published, and no others. */
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

interface ModelRecord {
  readonly messageId: string
  readonly destination: string
  readonly position: number
  state: 'pending' | 'parked' | 'published' | 'gone'
  attempts: number
  availableAt: number
  token: string | undefined
  leasedUntil: number
}

/**
 * A simple model of the contract: which records may be claimed now, and which claims are valid.
 * Each result of the store is passed to the model, which fails if the contract does not allow it.
 */
class OutboxModel {
  readonly #records = new Map<string, ModelRecord>()
  /** By the ids of the store, which are known from the first claim on. */
  readonly #byStoreId = new Map<string, ModelRecord>()
  #now = 0

  append(messageId: string, destination: string): void {
    const position = this.#records.size
    this.#records.set(messageId, {
      messageId,
      destination,
      position,
      state: 'pending',
      attempts: 0,
      availableAt: this.#now,
      token: undefined,
      leasedUntil: 0,
    })
  }

  advance(duration: number): void {
    this.#now += duration
  }

  /** The message ids of the records that a claim may return. */
  claimable({ destinations, except }: Pick<ClaimOptions, 'destinations' | 'except'> = {}): string[] {
    return [...this.#records.values()]
      .filter((record) => this.#isClaimable(record))
      .filter(({ destination }) => destinations?.includes(destination) !== false && except?.includes(destination) !== true)
      .map(({ messageId }) => messageId)
  }

  claimed(claims: readonly ClaimedRecord[], options: ClaimOptions): void {
    const allowed = this.claimable(options)
    assert.ok(claims.length <= options.limit, 'the claim exceeds its limit')
    assert.ok(claims.length > 0 || allowed.length === 0, `nothing was claimed although these were claimable: ${allowed.join(', ')}`)
    this.#checkOrder(claims, allowed)
    for (const claim of claims) {
      const record = this.#records.get(claim.message.id ?? '')
      assert.ok(record !== undefined && allowed.includes(record.messageId), `${claim.message.id} must not be claimed`)
      assert.ok(record.token !== claim.token, 'a token was used twice')
      record.attempts += 1
      assert.equal(claim.attempts, record.attempts, `attempts of ${record.messageId}`)
      record.token = claim.token
      record.leasedUntil = this.#now + options.lease
      this.#byStoreId.set(claim.id, record)
    }
    assert.equal(new Set(claims.map(({ id }) => id)).size, claims.length, 'a claim contains a record twice')
  }

  settled(outcomes: readonly Outcome[], answers: readonly string[]): void {
    const expected = outcomes.map((outcome) => {
      const record = this.#held(outcome)
      if (record === undefined) return 'lost'
      record.token = undefined
      if (outcome.result === 'failed') record.availableAt = this.#now + outcome.retryAfter
      else record.state = outcome.result
      return 'applied'
    })
    assert.deepEqual(answers, expected)
  }

  renewed(claims: readonly Claim[], lease: number, answers: readonly boolean[]): void {
    const expected = claims.map((claim) => {
      const record = this.#held(claim)
      if (record !== undefined) record.leasedUntil = this.#now + lease
      return record !== undefined
    })
    assert.deepEqual(answers, expected)
  }

  released(claims: readonly Claim[]): void {
    for (const claim of claims) {
      const record = this.#held(claim)
      if (record === undefined) continue
      record.token = undefined
      record.attempts -= 1
    }
  }

  discarded(ids: readonly string[], count: number): void {
    const parked = this.#parked(ids)
    assert.equal(count, parked.length, 'the number of discarded records')
    for (const record of parked) record.state = 'gone'
  }

  rearmed(ids: readonly string[], count: number): void {
    const parked = this.#parked(ids)
    assert.equal(count, parked.length, 'the number of re-armed records')
    for (const record of parked) Object.assign(record, { state: 'pending', attempts: 0, availableAt: this.#now })
  }

  /** Records that are neither published nor parked, and must become claimable after some time. */
  get pending(): string[] {
    return [...this.#records.values()].filter(({ state }) => state === 'pending').map(({ messageId }) => messageId)
  }

  /** Whether the contract determines the state of the claim. After the lease has expired, a store may treat it as valid or lost. */
  isCertain({ id, token }: Claim): boolean {
    const record = this.#byStoreId.get(id)
    return record?.token !== token || record.leasedUntil > this.#now
  }

  /** Records without attempts must be claimed oldest first within their destination. */
  #checkOrder(claims: readonly ClaimedRecord[], allowed: readonly string[]): void {
    const taken = new Set(claims.map(({ message }) => message.id ?? ''))
    for (const destination of new Set(claims.map((claim) => claim.destination))) {
      const fresh = allowed
        .flatMap((id) => this.#records.get(id) ?? [])
        .filter((one) => one.destination === destination && one.attempts === 0)
      const count = fresh.filter(({ messageId }) => taken.has(messageId)).length
      for (const { messageId } of fresh.slice(0, count)) assert.ok(taken.has(messageId), `${messageId} is older and was skipped`)
    }
  }

  #parked(ids: readonly string[]): ModelRecord[] {
    return ids.flatMap((id) => this.#byStoreId.get(id) ?? []).filter(({ state }) => state === 'parked')
  }

  #isClaimable({ state, token, leasedUntil, availableAt }: ModelRecord): boolean {
    return state === 'pending' && availableAt <= this.#now && (token === undefined || leasedUntil <= this.#now)
  }

  #held({ id, token }: Claim): ModelRecord | undefined {
    const record = this.#byStoreId.get(id)
    return record?.token === token && record.leasedUntil > this.#now ? record : undefined
  }
}
