import { describe, expect, it } from 'vitest'
import { brokenInvariants } from '../invariants.ts'
import { hour, idsOf, LuaWorld, lease, parked, record } from '../lua-world.ts'

function referenceOf(id: string, destination = 'orders') {
  return { destination, source: '/shop', id }
}

describe('cancel', () => {
  it('in a transaction removes the record together with the business write', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('reminder', { delay: hour }), record('other', { delay: hour })])
    const order = world.redis.key(world.tag, 'order')

    await world.redis.write(async (transaction) => {
      await world.redis.commands().set(order, 'paid')
      expect(await world.store.cancel(transaction, [referenceOf('reminder'), referenceOf('unknown')])).toBeUndefined()
      expect((await world.store.list({}, { limit: 10 })).records).toHaveLength(2)
    })

    expect(await world.command('GET', order)).toBe('paid')
    expect(world.counted).toContain('ackord.outbox.cancelled 1')
    expect(idsOf((await world.store.list({}, { limit: 10 })).records)).toEqual(['other'])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('and append in one transaction replace a record by one with the same id and another body', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('reminder', { delay: hour })])

    await world.redis.write(async (transaction) => {
      await world.store.cancel(transaction, [referenceOf('reminder')])
      await world.store.append(transaction, [record('reminder', { data: Buffer.from('new'), delay: 2 * hour })])
    })

    await world.advance(hour + 1000)
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
    await world.advance(hour)
    const [claimed] = await world.store.claim({ limit: 10, lease })
    expect(Buffer.from(claimed?.message.data ?? []).toString()).toBe('new')
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('removes a record that the same transaction appended before, which may then append another one with the same id', async () => {
    await using world = await LuaWorld.open()
    const data = (text: string) => Buffer.from(text)
    await world.redis.write(async (transaction) => {
      await world.store.append(transaction, [record('reminder', { data: data('first'), delay: hour }), record('other', { delay: hour })])
      await world.store.cancel(transaction, [referenceOf('reminder'), referenceOf('other')])
      await world.store.append(transaction, [record('reminder', { data: data('second'), delay: hour })])
    })
    const { records } = await world.store.list({}, { limit: 10 })
    expect(records.map(({ message }) => Buffer.from(message.data).toString())).toEqual(['second'])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('does not remove a record that the same transaction appended without a delay', async () => {
    await using world = await LuaWorld.open()
    const writing = world.redis.write(async (transaction) => {
      await world.store.append(transaction, [record('reminder', { data: Buffer.from('first') })])
      await world.store.cancel(transaction, [referenceOf('reminder')])
      await world.store.append(transaction, [record('reminder', { data: Buffer.from('second'), delay: hour })])
    })
    await expect(writing).rejects.toThrow('a different event with the id')
    expect((await world.store.list({}, { limit: 10 })).records).toEqual([])
  })

  it('and append are refused together if the record is already due', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('reminder')])
    const order = world.redis.key(world.tag, 'order')

    const writing = world.redis.write(async (transaction) => {
      await world.redis.commands().set(order, 'paid')
      await world.store.cancel(transaction, [referenceOf('reminder')])
      await world.store.append(transaction, [record('reminder', { data: Buffer.from('new') })])
    })

    await expect(writing).rejects.toThrow()
    expect(await world.command('EXISTS', order)).toBe(0)
  })

  it('without a transaction resolves to whether each record was removed', async () => {
    await using world = await LuaWorld.open({ outbox: { shards: 3 } })
    await world.store.enqueue([record('a', { delay: hour }), record('b', { delay: hour }), record('c')])

    const removed = await world.store.cancelNow(['a', 'c', 'd', 'b'].map((id) => referenceOf(id)))

    expect(removed).toEqual([true, false, false, true])
    expect(await world.store.cancelNow([referenceOf('a')])).toEqual([false])
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['c'])
  })

  it('does not remove a record that an operator moved to another destination', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('a')])
    const [claimed] = await world.store.claim({ limit: 1, lease })
    if (claimed === undefined) throw new Error('expected one claimed record')
    await world.store.settle([parked(claimed)])
    await world.store.rearm({ ids: [claimed.id] }, { destination: 'elsewhere' }, { delay: hour })

    expect(await world.store.cancelNow([referenceOf('a'), referenceOf('a', 'elsewhere')])).toEqual([false, false])
    expect(await world.store.get(claimed.id)).toMatchObject({ state: 'waiting', destination: 'elsewhere' })
  })

  it('refuses a record that is in another slot than the keys of the transaction', async () => {
    await using world = await LuaWorld.open({ outbox: { shards: 3 } })
    const byShard = new Map(Array.from({ length: 40 }, (_, index) => [world.store.tagOf(`key-${index}`), `key-${index}`]))
    const [one, other] = [...byShard.values()]
    if (one === undefined || other === undefined) throw new Error('expected two shards')
    await world.store.enqueue([record('a', { delay: hour, attributes: { partitionkey: one } })])

    const writing = world.redis.write(async (transaction) => {
      await world.redis.commands().set(world.redis.key(world.store.tagOf(other), 'order'), 'paid')
      await world.store.cancel(transaction, [referenceOf('a')])
    })
    await expect(writing).rejects.toMatchObject({ code: 'ACKORD_CROSS_SLOT' })

    await world.redis.write(async (transaction) => {
      await world.redis.commands().set(world.redis.key(world.store.tagOf(one), 'order'), 'paid')
      await world.store.cancel(transaction, [referenceOf('a')])
    })
    expect((await world.store.list({}, { limit: 10 })).records).toEqual([])
  })
})
