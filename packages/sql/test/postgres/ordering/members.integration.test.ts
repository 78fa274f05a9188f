import { fork } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { partitionOf } from '../../../src/records/outbox-row.ts'
import { crashProgram } from '../../support/crash-program.ts'
import { openPg, type World } from '../../support/world.ts'
import { idsOf, keyed, lease, ordered, published, record, skewed } from '../support/ordered-store.ts'

const program = crashProgram(new URL('../support/claiming-process.ts', import.meta.url))

async function append(world: World, ...records: readonly ReturnType<typeof record>[]): Promise<void> {
  await world.database.write((transaction) => ordered(world.database).append(transaction, records))
}

async function sharesOf(world: World): Promise<number[]> {
  const rows = await world.query('SELECT count(*)::int AS n FROM ackord_partitions WHERE owner IS NOT NULL GROUP BY owner ORDER BY 1')
  return rows.map(({ n }) => Number(n))
}

/** Shortens the leases of the members by `duration`, as if that much time had passed on the database's clock. */
async function age(world: World, duration: number): Promise<void> {
  await world.query('UPDATE ackord_relays SET alive_until = alive_until - make_interval(secs => $1::float8 / 1000)', [duration])
}

describe('the members that share the partitions', () => {
  it('get disjoint and even shares when ten of them start at once', async () => {
    await using world = await openPg({ max: 20 })
    await append(world, ...Array.from({ length: 300 }, (_, index) => record(`e${index}`)))
    const stores = Array.from({ length: 10 }, () => ordered(world.database))
    const seen: (string | undefined)[] = []
    const claimAll = async () => {
      const claimed = await Promise.all(stores.map((store) => store.claim({ limit: 5, lease })))
      seen.push(...claimed.flatMap(idsOf))
      const settled = await Promise.all(stores.map((store, index) => store.settle((claimed[index] ?? []).map(published))))
      expect(settled.flat().filter((answer) => answer !== 'applied')).toEqual([])
    }
    for (let round = 0; round < 40; round += 1) await claimAll()
    const shares = await sharesOf(world)
    expect(shares).toHaveLength(10)
    expect(Math.max(...shares)).toBe(26)
    expect(shares.reduce((sum, share) => sum + share)).toBe(256)
    expect(seen).toHaveLength(300)
    expect(new Set(seen).size).toBe(300)
  })

  it('take over from a killed member when its lease has expired, and count an attempt for its records in flight', async () => {
    await using world = await openPg()
    await append(world, keyed('a', 'a1'), keyed('a', 'a2'), record('free'))
    const child = fork(program, [], { env: { ...process.env, CLAIM_SCHEMA: world.schema, CLAIM_LEASE: '2000' }, execArgv: [] })
    const [had] = await once(child, 'message')
    expect([...had].sort()).toEqual(['a1', 'a2', 'free'])
    child.kill('SIGKILL')
    await once(child, 'exit')
    const store = ordered(world.database)
    expect(await store.claim({ limit: 10, lease })).toEqual([])
    await append(world, keyed('a', 'a3'))
    // No notification is sent when the lease of a killed member expires.
    await expect
      .poll(async () => (await store.claim({ limit: 10, lease })).map(({ message, attempts }) => [message.id, attempts]), {
        timeout: 10_000,
      })
      .toEqual([
        ['a1', 2],
        ['a2', 2],
        ['free', 2],
        ['a3', 1],
      ])
    expect(await sharesOf(world)).toEqual([256])
  })

  it('use the clock of the database, however wrong their own is', async () => {
    await using world = await openPg()
    const day = 86_400_000
    const [early, late] = [ordered(world.database, skewed(-day)), ordered(world.database, skewed(day))]
    for (const store of [early, late, early, late]) await store.claim({ limit: 1, lease })
    expect(await sharesOf(world)).toEqual([128, 128])
    await append(world, keyed('a', 'a1'))
    const claims = await Promise.all([early, late].map((store) => store.claim({ limit: 10, lease })))
    const owner = claims[0]?.length === 1 ? early : late
    const other = owner === early ? late : early
    const held = claims.flat()
    expect(idsOf(held)).toEqual(['a1'])
    await age(world, lease - 5000)
    expect(await other.claim({ limit: 10, lease })).toEqual([])
    expect(await owner.settle(held.map(published))).toEqual(['applied'])
  })

  it('settle nothing after their lease has expired, nor under a later epoch: the statement itself checks it', async () => {
    await using world = await openPg()
    await append(world, keyed('a', 'a1'))
    const store = ordered(world.database)
    const silent = await store.claim({ limit: 1, lease })
    await age(world, lease + 1)
    expect(await store.settle(silent.map(published))).toEqual(['lost'])
    const again = await store.claim({ limit: 1, lease })
    expect(again.map(({ attempts }) => attempts)).toEqual([2])
    await world.query('UPDATE ackord_partitions SET epoch = epoch + 1 WHERE partition = $1', [partitionOf('a')])
    expect(await store.settle(again.map(published))).toEqual(['lost'])
    expect(await world.outbox()).toBe(1)
  })

  it('have journal entries for records in flight, and for none that were settled, released or handed over', async () => {
    await using world = await openPg()
    await append(world, keyed('a', 'a1'), keyed('b', 'b1'), keyed('c', 'c1'), keyed('d', 'd1'))
    const store = ordered(world.database)
    const noted = async () => {
      const rows = await world.query(
        'SELECT o.id FROM ackord_hands h CROSS JOIN unnest(h.seqs) AS held(place) JOIN ackord_outbox o ON o.seq = held.place ORDER BY 1',
      )
      return rows.map(({ id }) => id)
    }
    const claimed = await store.claim({ limit: 3, lease })
    const [settled = '', released = '', kept = ''] = idsOf(claimed)
    const left = ['a1', 'b1', 'c1', 'd1'].find((id) => !idsOf(claimed).includes(id)) ?? ''
    expect(await noted()).toEqual([settled, released, kept].toSorted())
    await store.settle(claimed.slice(0, 1).map(published))
    await store.release(claimed.slice(1, 2))
    expect(idsOf(await store.claim({ limit: 1, lease }))).toEqual([left])
    expect(await noted()).toEqual([kept, left].toSorted())
    await age(world, lease + 1)
    const taken = await ordered(world.database).claim({ limit: 10, lease })
    expect(Object.fromEntries(taken.map(({ message, attempts }) => [message.id, attempts]))).toEqual({
      [released]: 1,
      [kept]: 2,
      [left]: 2,
    })
  })

  it('release their partitions when they leave, and can join again', async () => {
    await using world = await openPg()
    const [one, other] = [ordered(world.database), ordered(world.database)]
    await one.claim({ limit: 1, lease })
    await one.leave?.()
    expect(await sharesOf(world)).toEqual([])
    await append(world, keyed('a', 'a1'))
    expect(idsOf(await other.claim({ limit: 1, lease }))).toEqual(['a1'])
    await one.claim({ limit: 1, lease })
    expect(await world.query('SELECT count(*)::int AS n FROM ackord_relays')).toEqual([{ n: 2 }])
  })

  it('send one statement for a claim that finds records, one for a settle, and one more to renew the lease', async () => {
    await using world = await openPg()
    const statements: string[] = []
    const query = world.pool.query.bind(world.pool)
    Object.assign(world.pool, {
      query: (...given: Parameters<typeof query>) => {
        statements.push(String(given[0]))
        return query(...given)
      },
    })
    let now = Date.now()
    const store = ordered(world.database, { ...skewed(0), monotonic: () => now })
    await store.claim({ limit: 10, lease })
    await append(world, ...Array.from({ length: 20 }, (_, index) => record(`e${index}`)))
    const count = async (work: () => Promise<unknown>) => {
      statements.length = 0
      await work()
      return statements.length
    }
    expect(await count(async () => store.settle((await store.claim({ limit: 10, lease })).map(published)))).toBe(2)
    expect(await count(() => store.claim({ limit: 20, lease }))).toBe(1)
    expect(await count(() => store.claim({ limit: 20, lease }))).toBe(1)
    // With records in flight, the lease is renewed every tenth of its duration.
    now += lease / 20
    expect(await count(() => store.claim({ limit: 20, lease }))).toBe(1)
    now += lease / 20
    expect(await count(() => store.claim({ limit: 20, lease }))).toBe(2)
    now += lease / 20
    expect(await count(() => store.claim({ limit: 20, lease }))).toBe(1)
  })
})
