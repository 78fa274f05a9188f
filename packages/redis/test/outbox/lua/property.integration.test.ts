import type { Claim } from '@ackord/outbox'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { isProof } from '../../../../../scripts/test-depth.mjs'
import type { LuaExpiry } from '../../../src/outbox/lua/expiry/lua-expiry.ts'
import { repairLuaOutbox } from '../../../src/outbox/lua/repair/repair.ts'
import { ExpiryWorld, expired, revoked } from './expiry/expiry-world.ts'
import { brokenInvariants } from './invariants.ts'
import { failed, failedByStore, type LuaWorld, parked, published, record } from './lua-world.ts'

type Step =
  | { readonly kind: 'enqueue'; readonly numbers: readonly number[]; readonly delay: number; readonly body: number }
  | { readonly kind: 'transaction'; readonly numbers: readonly number[] }
  | { readonly kind: 'lease'; readonly number: number }
  | {
      readonly kind: 'claim'
      readonly limit: number
      readonly retried: 'only' | 'never' | undefined
      readonly destination: number | undefined
    }
  | { readonly kind: 'settle'; readonly picks: readonly number[]; readonly result: 'published' | 'failed' | 'byStore' | 'parked' }
  | {
      readonly kind: 'renew' | 'release' | 'rearm' | 'edit' | 'discard' | 'cancelWaiting' | 'park' | 'publishAgain' | 'putOff'
      readonly picks: readonly number[]
    }
  | { readonly kind: 'retention'; readonly limit: number }
  | { readonly kind: 'expiry'; readonly call: 'record' | 'revoke' | 'decide'; readonly subject: number; readonly due: boolean }
  | { readonly kind: 'cancel'; readonly numbers: readonly number[]; readonly how: 'now' | 'transaction' | 'andAgain' }
  | { readonly kind: 'repair' }
  | { readonly kind: 'advance'; readonly duration: number }

const lease = 10_000
const numbers = fc.array(fc.nat({ max: 15 }), { minLength: 1, maxLength: 4 })
const picks = fc.array(fc.nat({ max: 11 }), { minLength: 1, maxLength: 5 })

const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('enqueue' as const), numbers, delay: fc.constantFrom(0, 0, 5000), body: fc.nat({ max: 1 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('transaction' as const), numbers }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('lease' as const), number: fc.nat({ max: 15 }) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('claim' as const),
      limit: fc.integer({ min: 1, max: 6 }),
      retried: fc.constantFrom('only' as const, 'never' as const, undefined, undefined),
      destination: fc.option(fc.nat({ max: 2 }), { nil: undefined }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('settle' as const),
      picks,
      result: fc.constantFrom('published' as const, 'failed' as const, 'byStore' as const, 'parked' as const),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'renew' as const,
        'release' as const,
        'rearm' as const,
        'edit' as const,
        'discard' as const,
        'cancelWaiting' as const,
        'park' as const,
        'publishAgain' as const,
        'putOff' as const,
      ),
      picks,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('retention' as const), limit: fc.integer({ min: 1, max: 5 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('expiry' as const),
      call: fc.constantFrom('record' as const, 'revoke' as const, 'decide' as const),
      subject: fc.nat({ max: 3 }),
      due: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('cancel' as const),
      numbers,
      how: fc.constantFrom('now' as const, 'transaction' as const, 'andAgain' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('repair' as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('advance' as const), duration: fc.constantFrom(1000, 5001, lease + 1, -3000) }) },
)

const runs = isProof ? 300 : 15

it.each([
  [true, 'none'],
  [false, 'none'],
  [true, 'perKey'],
  [false, 'perKey'],
] as const)(
  'edge 23: any sequence of all scripts keeps the invariants; published records kept: %s, order: %s',
  { timeout: 600_000 },
  async (retain, order) => {
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { maxLength: 80, size: 'max' }), (history) => play(history, retain, order)),
      { seed: 7, numRuns: runs },
    )
  },
)

async function play(history: readonly Step[], retain: boolean, order: 'none' | 'perKey'): Promise<void> {
  await using expiries = await ExpiryWorld.open({ outbox: { retain, maxAttempts: 4, order } })
  const { world } = expiries
  const endOf = new Ends(expiries)
  let clock = 0
  const advance = async (duration: number) => {
    clock += duration
    await expiries.at(clock)
  }
  const stores = [world.store, world.another()] as const
  const claims: Claim[] = []
  const pick = (chosen: readonly number[]) => chosen.flatMap((number) => claims.at(-1 - number) ?? [])
  const destinationOf = (number: number) => `d${number % 3}`
  // Three of four records have a key, and several records share a key.
  const keyOf = (number: number) => (number % 4 === 0 ? {} : { partitionkey: `k${number % 5}` })
  const made = (number: number, delay = 0, body = 0) =>
    record(`e${number}`, { destination: destinationOf(number), delay, data: Uint8Array.of(body), attributes: keyOf(number) })

  for (const [index, step] of history.entries()) {
    const store = stores[index % 2 === 0 ? 0 : 1]
    if (step.kind === 'enqueue') await store.enqueue([...new Set(step.numbers)].map((number) => made(number, step.delay, step.body)))
    else if (step.kind === 'transaction') {
      await world.redis
        .write(async (transaction) =>
          store.append(
            transaction,
            [...new Set(step.numbers)].map((number) => made(number)),
          ),
        )
        .catch(() => {})
    } else if (step.kind === 'lease') {
      const detach = store.attach?.({ lease: () => lease, take: (given) => void claims.push(...given) })
      await store.enqueue([made(step.number)])
      detach?.()
    } else if (step.kind === 'claim') {
      const destinations = step.destination === undefined ? undefined : [destinationOf(step.destination)]
      const behindParked = (['given', 'kept', 'marked'] as const)[index % 3]
      claims.push(...(await store.claim({ limit: step.limit, lease, retried: step.retried, destinations, behindParked })))
    } else if (step.kind === 'settle') {
      const how = { published, failed: (claim: Claim) => failed(claim, 4000), byStore: failedByStore, parked }[step.result]
      await store.settle(pick(step.picks).map((claim) => how(claim)))
    } else if (step.kind === 'renew') await store.renew(pick(step.picks), 2 * lease)
    else if (step.kind === 'release') await store.release(pick(step.picks))
    else if (step.kind === 'rearm') await store.rearm({ ids: pick(step.picks).map(({ id }) => id) })
    else if (step.kind === 'edit')
      await store.rearm(
        { ids: pick(step.picks).map(({ id }) => id) },
        index % 3 === 0 ? { destination: 'd1', attributes: { partitionkey: 'k1' } } : { destination: 'd1' },
      )
    else if (step.kind === 'publishAgain')
      await store.rearm({ ids: pick(step.picks).map(({ id }) => id) }, index % 2 === 0 ? {} : { destination: 'd2' }, { state: 'published' })
    else if (step.kind === 'putOff')
      await store.rearm({ ids: pick(step.picks).map(({ id }) => id) }, {}, { delay: 5000, keepAttempts: true })
    else if (step.kind === 'park')
      await store.park(
        pick(step.picks).map(({ id }) => id),
        'as the history says',
      )
    else if (step.kind === 'discard')
      await store.discard(
        pick(step.picks).map(({ id }) => id),
        'as the history says',
      )
    else if (step.kind === 'cancelWaiting')
      await store.cancelWaiting(
        pick(step.picks).map(({ id }) => id),
        'as the history says',
      )
    else if (step.kind === 'retention') await store.deletePublished({ olderThan: 1000, limit: step.limit })
    else if (step.kind === 'expiry') await endOf.take(step)
    else if (step.kind === 'cancel') {
      const chosen = [...new Set(step.numbers)]
      const references = chosen.map((number) => ({ destination: destinationOf(number), source: '/shop', id: `e${number}` }))
      if (step.how === 'now') await store.cancelNow(references)
      else
        await world.redis
          .write(async (transaction) => {
            await store.cancel(transaction, references)
            if (step.how === 'andAgain')
              await store.append(
                transaction,
                chosen.map((number) => made(number, 5000, 2)),
              )
          })
          .catch(() => {})
    } else if (step.kind === 'repair') expect(await repairs(store)).toEqual([])
    else if (step.kind === 'advance') await advance(step.duration)
    if (index % 8 === 7 || index === history.length - 1)
      expect(await brokenInvariants(world), JSON.stringify(history.slice(0, index + 1))).toEqual([])
  }

  // After enough time every open record can be claimed; the statistics must match the listed records.
  await advance(24 * 3_600_000)
  const { records: listed } = await world.store.list({}, { limit: 1000 })
  const open = listed.filter(({ state }) => state === 'ready').length
  const claimed = await world.store.claim({ limit: 1000, lease })
  expect(claimed).toHaveLength(open)
  const { destinations } = await world.store.stats()
  expect(destinations.reduce((total, one) => total + one.leased + one.parked + one.published, 0)).toBe(
    order === 'none' ? listed.length : listed.length - open,
  )
  expect(destinations.reduce((total, one) => total + one.ready, 0)).toBe(order === 'none' ? 0 : open)
}

/** The repair classes with a count above zero; empty if nothing was damaged. Expired leases are ignored: the next claim takes them over. */
async function repairs(store: LuaWorld['store']): Promise<readonly [string, number][]> {
  const { counts } = await repairLuaOutbox(store)
  return Object.entries(counts).filter(([name, count]) => name !== 'expired' && count > 0)
}

/** How each subject ended: by revocation or by expiry, whichever came first. */
class Ends {
  readonly #expiry: LuaExpiry
  readonly #start: number
  readonly #ends = new Map<string, 'revoked' | 'enqueued'>()

  constructor({ expiry, start }: ExpiryWorld) {
    this.#expiry = expiry
    this.#start = start
  }

  async take({ call, subject: number, due }: Step & { readonly kind: 'expiry' }): Promise<void> {
    const subject = `s${number}`
    // No history reaches the later due time, so that expiry never becomes due.
    const dueAt = this.#start + (due ? -1000 : 1_000_000_000)
    const end = this.#ends.get(subject)
    if (call === 'record') {
      const recording = await this.#expiry.recordExpiry(subject, dueAt, Buffer.from(subject))
      if (end === 'revoked') expect(recording).toBe('revoked')
      // Recorded again, with another due time.
      else if (recording === 'recorded' || recording === 'moved') this.#ends.delete(subject)
    } else if (call === 'revoke') {
      const revocation = await this.#expiry.revoke(subject, revoked(subject, `r-${subject}`))
      if (end === undefined) expect(revocation).toBe('revoked')
      else expect(revocation).toBe(end === 'revoked' ? 'duplicate' : 'expired')
      if (revocation === 'revoked') this.#ends.set(subject, 'revoked')
    } else {
      const decision = await this.#expiry.decideExpiry({ subject, dueAt, context: Buffer.from(subject) }, expired)
      if (end === 'revoked') expect(decision).not.toBe('enqueued')
      if (!due) expect(decision).not.toBe('enqueued')
      if (decision === 'enqueued') this.#ends.set(subject, 'enqueued')
    }
  }
}
