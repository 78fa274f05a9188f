import { describe, expect, it } from 'vitest'
import { redisKey } from '../../../../src/client/keys.ts'
import { keyNames, keyTypes } from '../../../../src/outbox/lua/layout.ts'
import type { LuaOutbox } from '../../../../src/outbox/lua/lua-outbox.ts'
import { failed, hour, LuaWorld, lease, parked, published, record, records } from '../lua-world.ts'

interface Held {
  readonly open: readonly { readonly id: string; readonly token: string }[]
  readonly parkedId: string
  readonly doneId: string
  readonly openId: string
}

const calls: Readonly<Record<string, (store: LuaOutbox, held: Held) => Promise<unknown>>> = {
  enqueue: (store) => store.enqueue([record('new')]),
  claim: (store) => store.claim({ limit: 10, lease }),
  renew: (store, { open }) => store.renew(open, lease),
  release: (store, { open }) => store.release(open),
  settle: (store, { open }) =>
    store.settle(open.map((claim, index) => [published(claim), failed(claim, hour), parked(claim)][index % 3] ?? published(claim))),
  rearm: (store, { parkedId }) => store.rearm({ ids: [parkedId] }),
  'rearm with an edit': (store, { parkedId }) => store.rearm({ ids: [parkedId] }, { data: Uint8Array.of(1) }),
  'rearm of published records': (store, { doneId }) => store.rearm({ ids: [doneId] }, {}, { state: 'published' }),
  cancel: (store) => store.cancelNow([{ destination: 'orders', source: '/shop', id: 'later' }]),
  park: (store, { openId }) => store.park([openId], 'x'),
  discard: (store, { parkedId }) => store.discard([parkedId], 'x'),
  retention: (store) => store.deletePublished({ olderThan: 0, limit: 10 }),
  list: (store) => store.list({}, { limit: 10 }),
  get: (store, { parkedId }) => store.get(parkedId),
  stats: (store) => store.stats(),
  verify: (store) => store.verify(),
}

describe('R3, edge 1: a key of the wrong type', () => {
  it.each(keyNames)('%s: every script fails with the name of the key, and writes nothing', async (name) => {
    await using world = await LuaWorld.open({ outbox: { retain: true } })
    await world.store.enqueue([...records(6), record('later', { delay: hour })])
    const [done, given, ...open] = await world.store.claim({ limit: 5, lease })
    if (!(done && given && open.length === 3)) throw new Error('expected five claimed records')
    await world.store.settle([published(done), parked(given)])
    const [unclaimed] = (await world.store.list({ state: 'ready' }, { limit: 1 })).records
    if (unclaimed === undefined) throw new Error('expected one unclaimed record')
    const held = { open, parkedId: given.id, doneId: done.id, openId: unclaimed.id }
    const key = world.key(name)
    await world.command('DEL', key)
    if (keyTypes[keyNames.indexOf(name)] === 'string') await world.command('RPUSH', key, 'a list')
    else await world.command('SET', key, 'a text')
    const before = await world.dump()
    for (const [call, run] of Object.entries(calls)) {
      await expect(run(world.store, held), call).rejects.toThrow(key)
      expect(await world.dump(), call).toEqual(before)
    }

    // A transaction fails as well, with all of its writes.
    const order = redisKey(world.tag, 'order')
    const write = world.redis.write(async (transaction) => {
      transaction.queue({ name: 'SET', args: [order, '1'], keys: [0], kind: 'string' })
      await world.store.append(transaction, [record('new')])
    })
    await expect(write).rejects.toThrow(key)
    expect(await world.command('EXISTS', order)).toBe(0)
    expect(await world.dump()).toEqual(before)
  })

  it('an invalid sequence number and a layout of a newer version are refused in the same way', async () => {
    await using world = await LuaWorld.open()
    await world.command('SET', world.key('seq'), 'many')
    await expect(world.store.enqueue([record('e1')])).rejects.toThrow('no number')
    await world.command('DEL', world.key('seq'))
    await world.command('HSET', world.key('meta'), 'layout', '2')
    await expect(world.store.enqueue([record('e1')])).rejects.toThrow('layout 2')
    await expect(world.store.claim({ limit: 1, lease })).rejects.toThrow('layout 2')
    await expect(world.store.verify()).rejects.toThrow('layout 2')
    expect(await world.command('EXISTS', world.key('entries'), world.key('state'), world.key('seq'))).toBe(0)
  })
})
