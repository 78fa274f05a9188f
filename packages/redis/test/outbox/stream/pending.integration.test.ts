import { hostname } from 'node:os'
import { pid } from 'node:process'
import { expect, it, vi } from 'vitest'
import { idsOf, lease, record, records, StreamWorld } from './stream-world.ts'

it('B8: finds an expired lease behind a thousand others, page by page', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(2500))
  const held = await world.store.claim({ limit: 2500, lease })
  await world.age(held.slice(-3))
  const taken = await world.another().claim({ limit: 10, lease })
  expect(idsOf(taken)).toEqual(['e2498', 'e2499', 'e2500'])
  expect(taken.every(({ attempts }) => attempts === 2)).toBe(true)
})

it('B9: returns records that it takes over in the same claim', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(3))
  await world.age(await world.store.claim({ limit: 3, lease }))
  const other = world.another()
  expect(idsOf(await other.claim({ limit: 10, lease }))).toEqual(['e1', 'e2', 'e3'])
  expect(await other.claim({ limit: 10, lease })).toEqual([])
})

it('B10: renews claimed records without counting a delivery, and no other relay takes them over', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(2))
  const held = await world.store.claim({ limit: 2, lease })
  await world.age(held, 'orders', lease - 5000)
  expect(await world.store.renew(held, lease)).toEqual([true, true])
  const pending = await world.pending()
  expect(pending.map(([, , , deliveries]) => deliveries)).toEqual([1, 1])
  expect(pending.every(([, , idle]) => idle < lease - 5000)).toBe(true)
  expect(await world.another().claim({ limit: 2, lease })).toEqual([])
  expect(await world.store.claim({ limit: 2, lease })).toEqual([])
})

it('renews to another lease than that of the claim, which other relays see', async () => {
  await using world = await StreamWorld.open()
  await world.append(record('e1'))
  const held = await world.store.claim({ limit: 1, lease: 1000 })
  expect(await world.store.renew(held, 10 * 3_600_000)).toEqual([true])
  await world.age(held)
  expect(await world.another().claim({ limit: 1, lease })).toEqual([])
  expect(await world.store.settle([{ id: held[0]?.id ?? '', token: held[0]?.token ?? '', result: 'published' }])).toEqual(['applied'])
})

it('B11: entries whose relay crashes every time do not keep those behind them from being taken over', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(30))
  const held = await world.store.claim({ limit: 30, lease })
  const other = world.another()
  const seen: unknown[] = []
  for (let round = 0; round < 3; round += 1) {
    await world.age(held)
    seen.push(...idsOf(await other.claim({ limit: 10, lease })))
  }
  expect(new Set(seen).size).toBe(30)
})

it('continues from the first entry when the rest of the list has no more', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(2))
  const held = await world.store.claim({ limit: 2, lease })
  const other = world.another()
  await world.age(held)
  for (const _ of [1, 2]) expect(await other.claim({ limit: 1, lease })).toHaveLength(1)
  await world.age(held)
  expect(await other.claim({ limit: 1, lease })).toHaveLength(1)
})

it('B12: a failed record is retried after the delay of the relay, however long its lease was', async () => {
  await using world = await StreamWorld.open()
  await world.append(record('e1'), record('e2'))
  const [first, second] = await world.store.claim({ limit: 2, lease: 3_600_000 })
  await world.store.settle([
    { id: first?.id ?? '', token: first?.token ?? '', result: 'failed', error: 'refused', retryAfter: 0 },
    { id: second?.id ?? '', token: second?.token ?? '', result: 'failed', error: 'refused', retryAfter: 3_600_000 },
  ])
  const again = await world.another().claim({ limit: 2, lease })
  expect(again.map(({ message, attempts }) => [message.id, attempts])).toEqual([['e1', 2]])
})

it('B15: names a consumer by host, process and a random part, so that no two share pending entries', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(4))
  await world.store.claim({ limit: 2, lease })
  await world.another().claim({ limit: 2, lease })
  const consumers = new Set((await world.pending()).map(([, consumer]) => consumer))
  expect(consumers.size).toBe(2)
  for (const consumer of consumers) expect(consumer.startsWith(`${hostname()}-${pid}-`)).toBe(true)
})

it('B15: removes a dead consumer only when it has no pending entries', async () => {
  await using world = await StreamWorld.open({ outbox: { idleTime: 1 } })
  const consumers = async () => (await world.consumers()).filter(({ name }) => name.startsWith('gone'))
  const gone = world.another({ consumer: 'gone' })
  await world.append(record('e1'))
  const held = await gone.claim({ limit: 1, lease })
  await vi.waitFor(async () => expect((await consumers())[0]?.idle).toBeGreaterThan(1), 15_000)
  await world.store.claim({ limit: 1, lease })
  expect(await consumers()).toMatchObject([{ name: `gone/${lease}`, pending: 1 }])
  await gone.settle(held.map(({ id, token }) => ({ id, token, result: 'published' })))
  await vi.waitFor(async () => expect((await consumers())[0]?.idle).toBeGreaterThan(1), 15_000)
  await world.store.claim({ limit: 1, lease })
  expect(await consumers()).toEqual([])
})

it('takes over from a consumer without a lease in its name after the idle time', async () => {
  await using world = await StreamWorld.open({ outbox: { idleTime: 1_800_000 } })
  await world.append(...records(2))
  await world.store.claim({ limit: 1, lease })
  await world.command('XREADGROUP', 'GROUP', 'relay', 'by hand', 'COUNT', '1', 'STREAMS', world.key('to'), '>')
  expect(await world.another().claim({ limit: 2, lease })).toEqual([])
  const [, byHand] = await world.pending()
  await world.age([{ id: byHand?.[0] ?? '' }])
  expect(idsOf(await world.another().claim({ limit: 2, lease }))).toEqual(['e2'])
})

it('searches the pending entries once per interval', async () => {
  await using world = await StreamWorld.open({ outbox: { claimInterval: 3_600_000 } })
  await world.append(record('e1'), record('e2'))
  const held = await world.store.claim({ limit: 1, lease })
  const other = world.another()
  expect(idsOf(await other.claim({ limit: 1, lease }))).toEqual(['e2'])
  await world.age(held)
  expect(await other.claim({ limit: 1, lease })).toEqual([])
  expect(idsOf(await world.another().claim({ limit: 1, lease }))).toEqual(['e1'])
})
