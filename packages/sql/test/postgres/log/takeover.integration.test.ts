import { describe, expect, it } from 'vitest'
import { openPg, type World } from '../../support/world.ts'
import { append, drain, expireRelays, logged, makeDue, openSession } from '../support/log-store.ts'
import { failed, idsOf, keyed, lease, published, record } from '../support/ordered-store.ts'

const records = [
  record('r1'),
  keyed('k', 'k1'),
  record('r2'),
  keyed('l', 'l1'),
  record('r3'),
  keyed('k', 'k2'),
  record('r4'),
  keyed('l', 'l2'),
]
const ids = records.map(({ message }) => message.id)

async function tableOf(world: World): Promise<unknown[][]> {
  return (await world.query('SELECT id, attempts FROM ackord_outbox ORDER BY seq')).map(({ id, attempts }) => [id, attempts])
}

describe('a relay that takes over from a dead one', () => {
  it('counts an attempt for the records in flight, and reads the others again from the log', async () => {
    await using world = await openPg()
    await append(world, ...records)
    const dead = await logged(world.database).claim({ limit: 3, lease })
    expect(dead).toHaveLength(3)
    await append(world, keyed('k', 'k3'), record('r5'))
    await expireRelays(world)
    const claimed = await logged(world.database).claim({ limit: 100, lease })
    const hadBefore = idsOf(dead)
    const attempts = new Map(claimed.map((one) => [one.message.id, one.attempts]))
    // The records behind those in flight, of the same key, follow them to the outbox table.
    const inTable = await tableOf(world)
    expect(inTable.filter(([, count]) => count !== 0)).toEqual(ids.filter((id) => hadBefore.includes(id)).map((id) => [id, 1]))
    expect([...attempts].filter(([, count]) => count === 2).map(([id]) => id)).toEqual(ids.filter((id) => hadBefore.includes(id)))
    expect(idsOf(claimed).toSorted()).toEqual([...ids, 'k3', 'r5'].toSorted())
    const ofKey = (key: string) => idsOf(claimed).filter((id) => id?.startsWith(key))
    expect([ofKey('k'), ofKey('l')]).toEqual([
      ['k1', 'k2', 'k3'],
      ['l1', 'l2'],
    ])
  })

  it.each([
    ['a few', [1, 4, 6]],
    ['all but two', [0, 1, 2, 3, 4, 6]],
  ])('does not publish %s again that were published out of order', async (_, settled) => {
    await using world = await openPg()
    await append(world, ...records)
    const store = logged(world.database)
    const claimed = await store.claim({ limit: 100, lease })
    expect(idsOf(claimed)).toEqual(ids)
    for (const index of settled) await store.settle(claimed.slice(index, index + 1).map(published))
    await append(world, record('r5'))
    expect(idsOf(await store.claim({ limit: 1, lease }))).toEqual(['r5'])
    await expireRelays(world)
    const next = await logged(world.database).claim({ limit: 100, lease })
    const open = ids.filter((_id, index) => !settled.includes(index))
    expect(next.map(({ message, attempts }) => [message.id, attempts])).toEqual([...open, 'r5'].map((id) => [id, 2]))
  })

  it.each([
    ['in flight', [], ['r2', 'r3', 'r4', 'r5']],
    ['published', ['r4'], ['r2', 'r3', 'r5']],
  ])('does not read records again that were %s and stored after the part of the log that the cursor is in', async (_, settled, open) => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('r1'), record('r2'), record('r3'))
    const first = await store.claim({ limit: 1, lease })
    // The cursor is now between r1 and r2, and knows r3, but not what follows.
    await store.settle(first.map(published))
    await append(world, record('r4'), record('r5'))
    const inFlight = await store.claim({ limit: 10, lease })
    expect(idsOf([...first, ...inFlight])).toEqual(['r1', 'r2', 'r3', 'r4', 'r5'])
    await store.settle(inFlight.filter(({ message }) => settled.includes(String(message.id))).map(published))
    await expireRelays(world)
    const next = logged(world.database)
    const claimed = await next.claim({ limit: 10, lease })
    expect(claimed.map(({ message, attempts }) => [message.id, attempts])).toEqual(open.map((id) => [id, 2]))
    await next.settle(claimed.map(published))
    expect(await drain(next)).toEqual([])
    await expireRelays(world)
    expect(await drain(logged(world.database))).toEqual([])
  })

  it('does not publish a record again that was committed late, and moved and published while earlier reads were open', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, keyed('late', 'l0'))
    await store.settle((await store.claim({ limit: 1, lease })).map(failed))
    await using session = await openSession(world)
    await session.client.query('BEGIN')
    await store.append(session.client as never, [keyed('late', 'l1')])
    await append(world, ...Array.from({ length: 30 }, (_, index) => record(`r${index}`)))
    const seen: (string | undefined)[] = []
    const publishOne = async () => {
      const claimed = await store.claim({ limit: 1, lease })
      await store.settle(claimed.map(published))
      seen.push(...idsOf(claimed))
    }
    // Reads the others, which wait in memory.
    await publishOne()
    await session.client.query('COMMIT')
    // Reads the late one, whose key has a record in the table.
    await publishOne()
    expect(await world.outbox()).toBe(2)
    await makeDue(world)
    while (!seen.includes('l1')) await publishOne()
    await publishOne()
    await expireRelays(world)
    const rest = await drain(logged(world.database))
    expect([...seen, ...rest].toSorted()).toEqual([...new Set([...seen, ...rest])].toSorted())
    expect([...seen, ...rest]).toHaveLength(32)
  })

  it('counts one attempt per dead relay', async () => {
    await using world = await openPg()
    await append(world, ...records)
    for (const attempts of [1, 2, 3]) {
      const claimed = await logged(world.database).claim({ limit: 100, lease })
      expect(idsOf(claimed)).toEqual(ids)
      expect(new Set(claimed.map((one) => one.attempts))).toEqual(new Set([attempts]))
      await expireRelays(world)
    }
    expect(await drain(logged(world.database))).toEqual(ids)
  })

  it('publishes nothing again after a relay that has left', async () => {
    await using world = await openPg()
    await append(world, ...records)
    const store = logged(world.database)
    const claimed = await store.claim({ limit: 4, lease })
    await store.settle(claimed.map(published))
    await store.leave?.()
    const rest = await logged(world.database).claim({ limit: 100, lease })
    expect(rest.map(({ attempts }) => attempts)).toEqual([1, 1, 1, 1])
    expect([...idsOf(claimed), ...idsOf(rest)].toSorted()).toEqual(ids.toSorted())
  })
})
