import { describe, expect, it } from 'vitest'
import { brokenInvariants } from './invariants.ts'
import { failedByStore, hour, idsOf, LuaWorld, lease, parked, published, record, records } from './lua-world.ts'

/** Stores a record for each number and sets its attempts to that number. */
async function enqueueTried(world: LuaWorld, attempts: readonly number[]): Promise<void> {
  await world.store.enqueue(attempts.map((count, index) => record(`${index}, tried ${count}`)))
  for (const member of (await world.command('ZRANGE', world.key('ready'), '0', '-1')) as string[]) {
    const id = member.slice(25)
    const text = String(await world.command('HGET', world.key('state'), id))
    const tried = attempts[Number(member.slice(9, 25)) - 1] ?? 0
    await world.command('HSET', world.key('state'), id, text.replace(/^O \d+/, `O ${tried}`))
    if (tried > 0) {
      await world.command('ZREM', world.key('ready'), member)
      await world.command('ZADD', world.key('ready'), '0', member.replace(/^(.{8})f/, '$1r'))
    }
  }
}

async function delaysOf(world: LuaWorld): Promise<number[]> {
  const claimed = await world.store.claim({ limit: 10_000, lease })
  await world.store.settle(claimed.map((claim) => failedByStore(claim)))
  const delays: number[] = []
  const now = Number(((await world.command('GET', `{${world.tag}}:clock`)) as string).slice(3))
  for (const { id } of claimed) delays.push(((await world.store.get(id))?.availableAt ?? 0) - now)
  return delays
}

describe('R18, R19: the back-off of the store', () => {
  it('edge 9: uses the stored attempts, never overflows, grows up to its maximum', async () => {
    await using world = await LuaWorld.open({ outbox: { backoff: { jitter: 0 }, maxAttempts: 10_000 } })
    await world.stopClockAt(1_800_000_000_000)
    const tried = [...Array.from({ length: 70 }, (_, index) => index), 100, 500, 1022, 1023, 1024, 1025, 1999, 2000]
    await enqueueTried(world, tried)
    const delays = await delaysOf(world)
    expect(delays.slice(0, 8)).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000])
    expect(delays.slice(8).every((delay) => delay === 60_000)).toBe(true)
    expect(delays).toHaveLength(tried.length)
  })

  it('edge 9: jitter stays within its bounds, and is not the same for all', async () => {
    await using world = await LuaWorld.open({ outbox: { backoff: { initial: 10_000, max: 10_000, jitter: 0.2 } } })
    await world.stopClockAt(1_800_000_000_000)
    await enqueueTried(
      world,
      Array.from({ length: 50 }, () => 0),
    )
    const delays = await delaysOf(world)
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(8000)
    expect(Math.max(...delays)).toBeLessThanOrEqual(12_000)
    expect(new Set(delays).size).toBeGreaterThan(25)
  })

  it('an initial back-off of 0 stays 0, and a factor of 1 does not grow', async () => {
    for (const [initial, expected] of [
      [0, 0],
      [500, 500],
    ] as const) {
      await using world = await LuaWorld.open({ outbox: { backoff: { initial, factor: 1, jitter: 0 }, maxAttempts: 3000 } })
      await world.stopClockAt(1_800_000_000_000)
      await enqueueTried(world, [0, 5, 2000])
      expect(await delaysOf(world)).toEqual([expected, expected, expected])
    }
  })

  it('edge 9: parks exactly at maxAttempts', async () => {
    await using world = await LuaWorld.open({ outbox: { backoff: { initial: 0, jitter: 0 }, maxAttempts: 3 } })
    await world.store.enqueue([record('e1')])
    const states: (string | undefined)[] = []
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const [claimed] = await world.store.claim({ limit: 1, lease })
      await world.store.settle(claimed ? [failedByStore(claimed, `failure ${attempt}`)] : [])
      states.push((await world.store.get(claimed?.id ?? ''))?.state)
    }
    expect(states).toEqual(['ready', 'ready', 'parked'])
    expect(await world.store.claim({ limit: 1, lease })).toEqual([])
    const [found] = (await world.store.list({ state: 'parked' }, { limit: 10 })).records
    expect([found?.attempts, found?.lastError]).toEqual([3, 'failure 3'])
    expect(await brokenInvariants(world)).toEqual([])
  })
})

describe('edge 9: the first of several settlements takes effect', () => {
  const orders = [
    ['published', 'parked', 'rearm'],
    ['published', 'rearm', 'parked'],
    ['parked', 'published', 'rearm'],
    ['parked', 'rearm', 'published'],
    ['rearm', 'published', 'parked'],
    ['rearm', 'parked', 'published'],
  ] as const

  it.each(orders)('%s, then %s, then %s', async (...order) => {
    await using world = await LuaWorld.open({ outbox: { retain: true } })
    await world.store.enqueue([record('e1')])
    const [claimed] = await world.store.claim({ limit: 1, lease })
    if (claimed === undefined) throw new Error('expected one claimed record')
    const answers: unknown[] = []
    for (const step of order) {
      if (step === 'rearm') answers.push(await world.store.rearm({ ids: [claimed.id] }))
      else answers.push(...(await world.store.settle([step === 'published' ? published(claimed) : parked(claimed)])))
      expect(await brokenInvariants(world)).toEqual([])
    }
    expect(answers.filter((answer) => answer === 'applied')).toHaveLength(1)
    const settledAs = order.find((step) => step !== 'rearm')
    const rearmed = settledAs === 'parked' && order.indexOf('rearm') > order.indexOf('parked')
    expect((await world.store.get(claimed.id))?.state).toBe(rearmed ? 'ready' : settledAs)
    expect(answers.includes(1)).toBe(rearmed)
  })
})

describe('R20: parked records', () => {
  it('keep body, error, attempts and times; are listed, counted, re-armed, and deleted only by discard', async () => {
    await using world = await LuaWorld.open({ outbox: { retain: true } })
    await world.store.enqueue([record('e1', { attributes: { subject: 's' } }), record('e2')])
    const [one, other] = await world.store.claim({ limit: 2, lease })
    if (!(one && other)) throw new Error('expected two claimed records')
    await world.store.settle([parked(one, 'no such topic'), parked(other)])
    await world.advance(1000 * 24 * hour)
    expect(await world.store.deletePublished({ olderThan: 0, limit: 1000 })).toBe(0)
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
    const { records: listed } = await world.store.list({ state: 'parked' }, { limit: 10 })
    expect(listed).toHaveLength(2)
    expect(listed[0]).toMatchObject({
      id: one.id,
      lastError: 'no such topic',
      attempts: 1,
      destination: 'orders',
      createdAt: one.createdAt,
    })
    expect(listed[0]?.message.attributes).toMatchObject({ id: 'e1', subject: 's' })
    expect((await world.store.stats()).destinations).toMatchObject([{ parked: 2 }])
    expect(await world.store.rearm({ ids: [one.id, one.id] })).toBe(1)
    expect(await world.store.discard([other.id, other.id, one.id], 'not needed')).toBe(1)
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e1'])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('R21: are parked at once if the outcome says so', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('e1')])
    await world.store.settle((await world.store.claim({ limit: 1, lease })).map((claim) => parked(claim)))
    expect((await world.store.stats()).destinations).toMatchObject([{ ready: 0, waiting: 0, leased: 0, parked: 1 }])
  })

  it('refuses an edit of a record that has changed since it was read', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue(records(2))
    const claimed = await world.store.claim({ limit: 2, lease })
    await world.store.settle(claimed.map((claim) => parked(claim)))
    const ids = claimed.map(({ id }) => id)
    const counts = await Promise.all([
      world.store.rearm({ ids }, { attributes: { note: 'one' } }),
      world.another().rearm({ ids }, { attributes: { note: 'other' } }),
    ])
    expect(counts[0] + counts[1]).toBe(2)
    expect(await world.store.claim({ limit: 10, lease })).toHaveLength(2)
    expect(await brokenInvariants(world)).toEqual([])
  })
})

describe('edge 10: retention', () => {
  it('deletes records that are exactly as old as requested, and none that is a millisecond younger', async () => {
    await using world = await LuaWorld.open({ outbox: { retain: true } })
    const at = 1_800_000_000_000
    await world.stopClockAt(at)
    await world.store.enqueue([record('e1')])
    await world.store.settle((await world.store.claim({ limit: 1, lease })).map(published))
    await world.stopClockAt(at + hour - 1)
    expect(await world.store.deletePublished({ olderThan: hour, limit: 10 })).toBe(0)
    await world.stopClockAt(at + hour)
    expect(await world.store.deletePublished({ olderThan: hour, limit: 10 })).toBe(1)
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('deletes no record that is not old enough by a clock that was set back', async () => {
    await using world = await LuaWorld.open({ outbox: { retain: true } })
    await world.store.enqueue(records(3))
    const [one] = await world.store.claim({ limit: 1, lease })
    await world.store.settle(one ? [published(one)] : [])
    await world.advance(-24 * hour)
    expect(await world.store.deletePublished({ olderThan: 0, limit: 10 })).toBe(0)
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e2', 'e3'])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('can run while records are re-armed and published', async () => {
    await using world = await LuaWorld.open({ outbox: { retain: true } })
    await world.store.enqueue(records(300))
    const claimed = await world.store.claim({ limit: 300, lease })
    await world.store.settle(claimed.map((claim, index) => (index % 2 === 0 ? parked(claim) : published(claim))))
    const ids = claimed.map(({ id }) => id)
    const [deleted, rearmed] = await Promise.all([
      world.store.deletePublished({ olderThan: 0, limit: 1000 }),
      world.another().rearm({ ids }),
      world.another().discard(ids.slice(0, 50), 'at the same time'),
    ])
    const left = (await world.store.list({}, { limit: 1000 })).records.length
    expect(deleted).toBe(150)
    expect(left).toBe(rearmed)
    expect(await brokenInvariants(world)).toEqual([])
  })
})
