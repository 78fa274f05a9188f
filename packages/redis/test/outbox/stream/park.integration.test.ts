import type { Claim } from '@ackord/outbox'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isProof } from '../../../../../scripts/test-depth.mjs'
import { idsOf, lease, record, records, StreamWorld } from './stream-world.ts'

const hour = 3_600_000

async function idOf(world: StreamWorld, messageId: string): Promise<string> {
  const { records: listed } = await world.store.list({}, { limit: 10_000 })
  return listed.find(({ message }) => message.id === messageId)?.id ?? ''
}

describe('park', () => {
  it('works before any relay has created the group, and is logged', async () => {
    await using world = await StreamWorld.open()
    await world.append(...records(2))
    const id = await idOf(world, 'e1')
    expect(await world.store.park([id], 'wrong price')).toBe(1)
    expect(await world.store.get(id)).toMatchObject({ state: 'parked', attempts: 0, lastError: 'wrong price' })
    expect(world.logger.at('info').map(({ text }) => text)).toEqual(['An operator parked outbox records.'])
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e2'])
    expect((await world.store.stats()).destinations).toMatchObject([{ ready: 0, leased: 1, parked: 1 }])
  })

  it('parks a record of a relay whose lease has expired, which can no longer settle it', async () => {
    await using world = await StreamWorld.open()
    await world.append(record('e1'))
    const [held] = await world.store.claim({ limit: 1, lease })
    if (held === undefined) throw new Error('expected one claimed record')
    expect(await world.store.park([held.id], 'too early')).toBe(0)
    await world.age([held])
    expect(await world.store.park([held.id], 'wrong price')).toBe(1)
    expect(await world.store.settle([{ ...held, result: 'published' }])).toEqual(['lost'])
    expect(await world.store.claim({ limit: 1, lease })).toEqual([])
    expect(await world.store.get(held.id)).toMatchObject({ state: 'parked', attempts: 1 })
  })

  it('of more unread records than one claim skips does not keep those behind them from being claimed', async () => {
    await using world = await StreamWorld.open()
    await world.append(...records(2500))
    await world.append(record('last'))
    const { records: listed } = await world.store.list({}, { limit: 10_000 })
    const ids = listed.filter(({ message }) => message.id !== 'last').map(({ id }) => id)
    expect(await world.store.park(ids, 'wrong price')).toBe(2500)
    const claimed: (string | undefined)[] = []
    for (let round = 0; round < 4; round += 1) claimed.push(...idsOf(await world.store.claim({ limit: 10, lease })))
    expect(claimed).toEqual(['last'])
  })

  it('and the age of the oldest record: unread parked records do not count', async () => {
    await using world = await StreamWorld.open()
    await world.append(...records(15))
    const { records: listed } = await world.store.list({}, { limit: 100 })
    await world.store.park(
      listed.map(({ id }) => id),
      'wrong price',
    )
    expect((await world.store.stats()).oldestAge).toBeUndefined()
    await world.append(record('last'))
    expect((await world.store.stats()).oldestAge).toBeLessThan(60_000)
  })

  it('leaves a group that was lost with its parked records to the next claim, which logs it', async () => {
    await using world = await StreamWorld.open()
    await world.append(...records(2))
    const id = await idOf(world, 'e1')
    await world.store.park([id], 'wrong price')
    await world.command('XGROUP', 'DESTROY', world.key('to'), 'relay')
    expect(await world.store.park([id], 'wrong price')).toBe(0)
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e1', 'e2'])
    expect(world.logger.at('warn')).toHaveLength(1)
  })
})

describe('rearm', () => {
  it('with kept attempts leaves nothing behind when the edited record is published', async () => {
    await using world = await StreamWorld.open()
    await world.append(record('e1'))
    const [first] = await world.store.claim({ limit: 1, lease })
    if (first === undefined) throw new Error('expected one claimed record')
    await world.store.settle([{ ...first, result: 'parked', error: 'no route' }])
    expect(await world.store.rearm({ ids: [first.id] }, { destination: 'new' }, { keepAttempts: true })).toBe(1)
    expect((await world.store.list({}, { limit: 10 })).records).toMatchObject([{ destination: 'new', attempts: 1, state: 'ready' }])
    const claimed = await world.store.claim({ limit: 10, lease })
    expect(claimed).toMatchObject([{ destination: 'new', attempts: 2 }])
    expect(await world.store.settle(claimed.map((claim) => ({ ...claim, result: 'published' })))).toEqual(['applied'])
    for (const destination of ['new', 'orders']) expect(await world.leftovers(destination)).toEqual([])
  })

  it('of a delayed record before its delay has ended is not undone when its relay crashes', async () => {
    await using world = await StreamWorld.open()
    await world.append(record('e1', { delay: hour }))
    const id = await idOf(world, 'e1')
    await world.store.park([id], 'now')
    await world.store.rearm({ ids: [id] })
    const held = await world.store.claim({ limit: 1, lease })
    expect(idsOf(held)).toEqual(['e1'])
    await world.age(held)
    expect(idsOf(await world.another().claim({ limit: 1, lease }))).toEqual(['e1'])
  })
})

type Step =
  | { readonly kind: 'append'; readonly count: number }
  | { readonly kind: 'claim'; readonly limit: number }
  | { readonly kind: 'park' | 'rearm' | 'edit' | 'publish' | 'release' | 'fail'; readonly picks: readonly number[] }

const picks = fc.array(fc.nat({ max: 30 }), { minLength: 1, maxLength: 5 })
const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('append' as const), count: fc.integer({ min: 1, max: 8 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('claim' as const), limit: fc.integer({ min: 1, max: 6 }) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('park' as const), picks }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constantFrom('rearm' as const, 'edit' as const, 'publish' as const, 'release' as const, 'fail' as const),
      picks,
    }),
  },
)

const runs = isProof ? 300 : 30

it('in any history with parked records each record is claimed by one relay at a time, and published once', {
  timeout: 600_000,
}, async () => {
  await fc.assert(fc.asyncProperty(fc.array(steps, { maxLength: 40, size: 'max' }), fc.boolean(), play), { seed: 7, numRuns: runs })
})

async function play(history: readonly Step[], messageIndex: boolean): Promise<void> {
  await using world = await StreamWorld.open({ outbox: { messageIndex } })
  const held = new Map<string, Claim>()
  const published: string[] = []
  let appended = 0

  async function claim(limit: number): Promise<number> {
    const claimed = await world.store.claim({ limit, lease })
    for (const { message, ...one } of claimed) {
      expect(held.has(String(message.id)), `${message.id} is claimed twice: ${JSON.stringify(history)}`).toBe(false)
      expect(published).not.toContain(message.id)
      held.set(String(message.id), one)
    }
    return claimed.length
  }

  async function publish(names: readonly string[]): Promise<void> {
    const claims = names.map((name) => held.get(name) as Claim)
    expect(await world.store.settle(claims.map((one) => ({ ...one, result: 'published' as const })))).toEqual(claims.map(() => 'applied'))
    for (const name of names) held.delete(name)
    published.push(...names)
  }

  for (const step of history) {
    if (step.kind === 'append') {
      const added = Array.from({ length: step.count }, (_, index) => record(`e${appended + index}`, { destination: `d${index % 2}` }))
      appended += step.count
      await world.append(...added)
    } else if (step.kind === 'claim') await claim(step.limit)
    else if (step.kind === 'park' || step.kind === 'rearm' || step.kind === 'edit') {
      const { records: listed } = await world.store.list({}, { limit: 1000 })
      const ids = step.picks.flatMap((pick) => listed[pick]?.id ?? [])
      if (step.kind === 'park') await world.store.park(ids, 'as the history says')
      else if (step.kind === 'rearm') await world.store.rearm({ ids }, {}, { keepAttempts: ids.length % 2 === 0 })
      else await world.store.rearm({ ids }, { destination: 'd1' }, { keepAttempts: ids.length % 2 === 0 })
    } else {
      const names = [...new Set(step.picks)].flatMap((pick) => [...held.keys()][pick] ?? [])
      const claims = names.map((name) => held.get(name) as Claim)
      if (step.kind === 'publish') await publish(names)
      else {
        if (step.kind === 'release') await world.store.release(claims)
        else await world.store.settle(claims.map((one) => ({ ...one, result: 'failed' as const, error: 'no route', retryAfter: 0 })))
        for (const name of names) held.delete(name)
      }
    }
  }

  await world.store.rearm({ filter: {} })
  while ((await claim(1000)) > 0);
  await publish([...held.keys()])
  expect(published.length, JSON.stringify(history)).toBe(appended)
  expect((await world.store.list({}, { limit: 10 })).records).toEqual([])
  // No key of any record is left.
  for (const destination of ['d0', 'd1']) expect(await world.leftovers(destination)).toEqual([])
}
