import { silentLogger, systemRuntime } from '@ackord/core'
import { type ClaimedRecord, Relay } from '@ackord/outbox'
import { deferred } from '@ackord/testkit'
import { describe, expect, it, vi } from 'vitest'
import { luaOutbox } from '../../../../src/outbox/lua/lua-outbox.ts'
import { Redis } from '../../../../src/transaction/redis.ts'
import { until } from '../../../support/until.ts'
import { brokenInvariants } from '../invariants.ts'
import { failed, hour, idsOf, LuaWorld, lease, parked, published, record, records } from '../lua-world.ts'

describe('claims', () => {
  it('R9: records that are delayed or backing off are not claimed', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('later', { delay: hour }), record('now')])
    const [now] = await world.store.claim({ limit: 10, lease })
    expect(now?.message.id).toBe('now')
    await world.store.settle(now ? [failed(now, 2 * hour)] : [])
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
    await world.advance(hour)
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['later'])
    await world.advance(hour)
    expect(idsOf(await world.store.claim({ limit: 10, lease, retried: 'only' }))).toEqual(['later', 'now'])
  })

  it.each([undefined, 'perKey'] as const)('the age of a record is never negative, with order %s', async (order) => {
    await using world = await LuaWorld.open({ outbox: { order } })
    await world.store.enqueue([record('e1')])
    // As if the clock of the server had been set back.
    await world.advance(-hour)
    const [claimed] = await world.store.claim({ limit: 10, lease })
    expect([claimed?.message.id, claimed?.age]).toEqual(['e1', 0])
  })

  it('R10: every settlement is guarded by state and token, and reports what it did', async () => {
    await using world = await LuaWorld.open()
    const other = world.another()
    await world.store.enqueue(records(4))
    const stale = await world.store.claim({ limit: 2, lease })
    await world.advance(lease + 1)
    const held = await other.claim({ limit: 4, lease })
    expect(held).toHaveLength(4)
    expect(await world.store.settle(stale.map(published))).toEqual(['lost', 'lost'])
    expect(await world.store.renew(stale, lease)).toEqual([false, false])
    await world.store.release(stale)
    const [a, b, c, d] = held
    if (!(a && b && c && d)) throw new Error('expected four claimed records')
    expect(await other.settle([published(a), published(a), failed(b), parked(c), { ...published(d), token: 'foreign' }])).toEqual([
      'applied',
      'lost',
      'applied',
      'applied',
      'lost',
    ])
    const garbage = { id: 'no id of ours', token: 'x', result: 'published' } as const
    expect(await other.settle([garbage, { ...garbage, id: a.id, token: 'with a blank' }, { ...garbage, id: a.id, token: '' }])).toEqual([
      'lost',
      'lost',
      'lost',
    ])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('R11, edge 6: pollers that stall past their lease settle nothing with a stale token, and every record is sent', {
    timeout: 120_000,
  }, async () => {
    await using world = await LuaWorld.open()
    const total = 10_000
    const all = records(total)
    for (let start = 0; start < total; start += 1000) await world.store.enqueue(all.slice(start, start + 1000))
    const sent = new Map<string, number>()
    let lost = 0
    let round = 0
    let settled = 0
    async function poll(store: LuaWorld['store']): Promise<void> {
      for (;;) {
        const held = await store.claim({ limit: 500, lease })
        if (held.length === 0 && settled >= total) return
        if (held.length === 0) {
          await world.advance(lease + 1)
          continue
        }
        for (const { message } of held) sent.set(message.id ?? '', (sent.get(message.id ?? '') ?? 0) + 1)
        // The process that claims every fourth batch stalls past its lease.
        round += 1
        if (round % 4 === 0) await world.advance(lease + 1)
        const answers = await store.settle(held.map(published))
        settled += answers.filter((answer) => answer === 'applied').length
        lost += answers.filter((answer) => answer === 'lost').length
      }
    }
    await Promise.all([poll(world.store), poll(world.another())])
    expect(sent.size).toBe(total)
    const duplicates = [...sent.values()].reduce((sum, count) => sum + count - 1, 0)
    expect(lost).toBeGreaterThan(0)
    expect(duplicates).toBeLessThanOrEqual(lost)
    expect(settled).toBe(total)
    expect((await world.store.stats()).destinations).toEqual([])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('edge 11: the clock of the process has no effect', async () => {
    await using world = await LuaWorld.open()
    const stores = [-86_400_000, 86_400_000].map((offset) => {
      const runtime = { ...systemRuntime, now: () => systemRuntime.now() + offset }
      return luaOutbox(new Redis({}, world.port, { logger: silentLogger, runtime }), { tag: world.tag })
    })
    const [behind, ahead] = stores
    if (!(behind && ahead)) throw new Error('expected two stores')
    await behind.enqueue([record('e1'), record('later', { delay: hour })])
    const [claimed] = await ahead.claim({ limit: 10, lease })
    expect(claimed?.message.id).toBe('e1')
    expect(Math.abs((claimed?.createdAt ?? 0) - Date.now())).toBeLessThan(hour)
    expect(await behind.claim({ limit: 10, lease })).toEqual([])
    expect(await behind.settle(claimed ? [failed(claimed, hour)] : [])).toEqual(['applied'])
    expect(await ahead.claim({ limit: 10, lease })).toEqual([])
    await world.advance(hour)
    expect(idsOf(await behind.claim({ limit: 10, lease })).sort()).toEqual(['e1', 'later'])
  })

  it("the server's clock is set back: new records are claimed immediately, and delays and leases last that much longer", async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('held'), record('fails')])
    const [held, fails] = await world.store.claim({ limit: 2, lease })
    await world.store.settle(fails ? [failed(fails, 1000)] : [])
    await world.advance(-hour)
    await world.store.enqueue([record('new')])
    const claimed = await world.another().claim({ limit: 10, lease })
    expect(idsOf(claimed)).toEqual(['new'])
    expect(await world.store.settle([...claimed, ...(held ? [held] : [])].map(published))).toEqual(['applied', 'applied'])
    await world.advance(hour + 1000)
    expect((await world.store.claim({ limit: 10, lease })).map(({ message, attempts }) => [message.id, attempts])).toEqual([['fails', 2]])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it("the server's clock is set ahead: leases expire early, and a claim with a lost lease settles nothing", async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('held')])
    const held = await world.store.claim({ limit: 1, lease })
    await world.advance(hour)
    const taken = await world.another().claim({ limit: 1, lease })
    expect(taken.map(({ attempts }) => attempts)).toEqual([2])
    expect(await world.store.settle(held.map(published))).toEqual(['lost'])
    expect(await world.store.settle(taken.map(published))).toEqual(['applied'])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('records of many destinations take turns, however small a claim is', async () => {
    await using world = await LuaWorld.open()
    const busy = records(50, 'b', { destination: 'busy' })
    await world.store.enqueue([...busy, record('q1', { destination: 'quiet' }), record('o1', { destination: 'other' })])
    const seen: string[] = []
    for (let round = 0; round < 3; round += 1)
      seen.push(...(await world.store.claim({ limit: 1, lease })).map(({ destination }) => destination))
    expect(seen.sort()).toEqual(['busy', 'other', 'quiet'])
  })

  it('removes a destination with its last record, and adds it again with the next one', async () => {
    await using world = await LuaWorld.open()
    const names = async () => ((await world.command('HVALS', world.key('destinations'))) as string[]).sort()
    await world.store.enqueue(['done', 'parked', 'cancelled'].map((destination) => record('e1', { destination, delay: hour })))
    await world.store.cancelNow([{ destination: 'cancelled', source: '/shop', id: 'e1' }])
    expect(await names()).toEqual(['done', 'parked'])
    await world.advance(2 * hour)
    const held = await world.store.claim({ limit: 10, lease })
    expect(await names()).toEqual(['done', 'parked'])
    await world.store.settle(held.map((one) => (one.destination === 'done' ? published(one) : parked(one))))
    expect(await names()).toEqual(['parked'])
    await world.store.discard(
      held.map(({ id }) => id),
      'not needed',
    )
    expect(await names()).toEqual([])
    await world.store.enqueue([record('e2', { destination: 'done' })])
    expect(await names()).toEqual(['done'])
    expect((await world.store.stats()).destinations).toMatchObject([{ destination: 'done', ready: 1 }])
    expect(await brokenInvariants(world)).toEqual([])
  })
})

describe('R15: records that cannot be claimed are removed from the indexes of claims', () => {
  it('edge 8: 500 orphans and unreadable records do not delay the valid records behind them', async () => {
    await using world = await LuaWorld.open()
    const bad = records(500, 'bad')
    await world.store.enqueue(bad)
    await world.store.enqueue(records(100, 'good'))
    const ids = (await world.command('ZRANGE', world.key('index'), '0', '499')) as string[]
    const entries = ids.map((member) => member.slice(17))
    for (const [index, entry] of entries.entries()) {
      const kind = index % 5
      if (kind === 0) await world.command('HDEL', world.key('entries'), entry)
      else if (kind === 1) await world.command('HDEL', world.key('state'), entry)
      else if (kind === 2) await world.command('HSET', world.key('state'), entry, 'X what is this')
      else if (kind === 3) await world.command('HSET', world.key('entries'), entry, 'no body of ours')
      else {
        await world.command('HDEL', world.key('entries'), entry)
        await world.command('HDEL', world.key('state'), entry)
      }
    }
    const first = await world.store.claim({ limit: 100, lease })
    const second = first.length < 100 ? await world.store.claim({ limit: 100, lease }) : []
    expect(idsOf([...first, ...second])).toEqual(idsOf(records(100, 'good')))
    expect(await world.store.claim({ limit: 100, lease })).toEqual([])
    expect(await world.command('ZCARD', world.key('ready'))).toBe(0)

    const { records: left } = await world.store.list({ state: 'parked' }, { limit: 1000 })
    expect(left).toHaveLength(400)
    for (const { lastError, cause } of left) expect(`${cause} ${lastError}`).toMatch(/^It cannot be read[.:].* It cannot be read: /)
    const sum = (name: string) =>
      world.counted.filter((line) => line.startsWith(name)).reduce((total, line) => total + Number(line.split(' ').at(-1)), 0)
    expect([sum('ackord.outbox.quarantined'), sum('ackord.outbox.unreadable'), sum('ackord.outbox.orphans')]).toEqual([300, 100, 100])
    expect(
      await world.store.discard(
        left.map(({ id }) => id),
        'garbage',
      ),
    ).toBe(400)
  })

  it('removes index members that Ackord did not write', async () => {
    await using world = await LuaWorld.open()
    await world.command('ZADD', world.key('ready'), '0', 'garbage', '0', '', '0', 'x'.repeat(47), '0', `\xff${'y'.repeat(46)}`)
    await world.command('ZADD', world.key('inflight'), '1', 'garbage')
    await world.command('ZADD', world.key('waiting'), '1', 'more garbage')
    await world.store.enqueue([record('good')])
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['good'])
    expect(await world.command('ZCARD', world.key('ready'))).toBe(0)
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('claims a record with two index entries once', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('e1')])
    const [member = ''] = (await world.command('ZRANGE', world.key('ready'), '0', '-1')) as string[]
    const [held] = await world.store.claim({ limit: 10, lease })
    await world.command('ZADD', world.key('ready'), '0', member)
    await world.command('ZADD', world.key('waiting'), '1', member.replace(/^(.{8})f/, '$1r'))
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
    expect(await world.store.settle(held ? [published(held)] : [])).toEqual(['applied'])
    expect(await brokenInvariants(world)).toEqual([])
  })
})

describe('R8: the relay of the process that stores', () => {
  it('receives records already leased, so that no poller claims them too', async () => {
    await using world = await LuaWorld.open()
    const arrived: (string | undefined)[] = []
    const sending = deferred<void>()
    const mayAnswer = deferred<void>()
    const relay = new Relay(world.store, {
      logger: silentLogger,
      publisher: {
        async publish(_, messages) {
          sending.resolve()
          await mayAnswer.promise
          arrived.push(...messages.map(({ id }) => id))
          return messages.map(() => ({ ok: true }))
        },
      },
    })
    relay.start()
    await world.redis.write(async (transaction) => {
      await world.store.append(transaction, [record('e1'), record('e2')])
    })
    await sending.promise
    expect(await world.another().claim({ limit: 10, lease })).toEqual([])
    expect((await world.store.list({}, { limit: 10 })).records.map(({ state, attempts }) => [state, attempts])).toEqual([
      ['leased', 1],
      ['leased', 1],
    ])
    mayAnswer.resolve()
    await vi.waitFor(async () => expect((await world.store.stats()).destinations).toEqual([]), 15_000)
    // A duplicate belongs to the call that stored it first, so this relay does not receive it.
    await world.store.enqueue([record('e3')])
    expect(await world.store.enqueue([record('e3')])).not.toEqual(['conflict'])
    await vi.waitFor(() => expect(arrived).toContain('e3'), 15_000)
    await relay.stop()
    expect(arrived.filter((id) => id === 'e1')).toHaveLength(1)
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('leaves records that it could not accept to others when the lease has expired', async () => {
    await using world = await LuaWorld.open()
    const taken: ClaimedRecord[] = []
    const detach = world.store.attach?.({
      lease: () => lease,
      take: (given) => void taken.push(...given),
    })
    expect(await world.store.enqueue([record('e1')])).toEqual(['inserted'])
    expect(await world.store.enqueue([record('e1')])).toEqual(['duplicate'])
    expect(taken.map(({ age }) => age)).toEqual([0])
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
    await world.advance(lease + 1)
    const [claimed] = await world.store.claim({ limit: 10, lease })
    expect([claimed?.id, claimed?.attempts]).toEqual([taken[0]?.id, 2])
    detach?.()
    await world.store.enqueue([record('e2')])
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e2'])
    // Delayed records wait for a claim, even with a relay attached that receives the others directly.
    world.store.attach?.({ lease: () => lease, take: () => {} })
    await world.store.enqueue([record('e3', { delay: hour })])
    expect(await world.command('ZCARD', world.key('waiting'))).toBe(1)
    expect(await brokenInvariants(world)).toEqual([])
  })
})

describe('R16: wake-ups', () => {
  it('report records that another process stores, also after all keys were deleted', async () => {
    await using world = await LuaWorld.open({ outbox: { block: 100, shards: 2 } })
    const stop = new AbortController()
    let woken = 0
    const following = (async () => {
      for await (const _ of world.store.wakeUps?.({ signal: stop.signal }) ?? []) woken += 1
    })()
    await until('the first hints', () => woken > 0)
    let before = woken
    await world.another().enqueue([record('e1')])
    await until('a hint of what was stored', () => woken > before)
    await world.command('DEL', ...world.keys.slice(0, 13))
    await world.command('DEL', ...world.keys.slice(13))
    before = woken
    await world.another().enqueue([record('e2')])
    await until('a hint after all was deleted', () => woken > before)
    stop.abort()
    await following
  })
})
