import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../../../scripts/servers/index.mjs'
import type { RedisPort } from '../../../../src/client/port.ts'
import { luaOutbox } from '../../../../src/outbox/lua/lua-outbox.ts'
import { Redis } from '../../../../src/transaction/redis.ts'
import { idsOf, LuaWorld, lease, record, records } from '../lua-world.ts'

describe('a transaction whose event cannot be stored', () => {
  it.each(['incrby'])('is undone with rollback: true, where the server refuses %s', async (command) => {
    await using server = await startRedis()
    await using world = await LuaWorld.open({ url: server.url })
    await world.command('ACL', 'SETUSER', 'default', `-${command}`)
    const business = world.redis.key(world.tag, 'ticket')

    const writing = world.redis.write(
      async (transaction) => {
        await world.redis.commands().set(business, 'minted')
        await world.store.append(transaction, [record('a')])
      },
      { rollback: true },
    )

    await expect(writing).rejects.toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
    expect(await world.command('EXISTS', business)).toBe(0)
  })

  it('is refused before it writes if the sequence is exhausted', async () => {
    await using world = await LuaWorld.open()
    await world.command('SET', world.key('seq'), '9223372036854775807')
    const business = world.redis.key(world.tag, 'ticket')

    const writing = world.redis.write(async (transaction) => {
      await world.redis.commands().set(business, 'minted')
      await world.store.append(transaction, [record('a')])
    })

    await expect(writing).rejects.toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
    expect(await world.command('EXISTS', business)).toBe(0)
  })

  it('is refused if an unreadable record with its id and different content is stored', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('a')])
    const [id = ''] = (await world.command('HKEYS', world.key('state'))) as string[]
    await world.command('HSET', world.key('state'), id, 'broken')
    const business = world.redis.key(world.tag, 'ticket')

    const writing = world.redis.write(async (transaction) => {
      await world.redis.commands().set(business, 'minted')
      await world.store.append(transaction, [record('a', { data: Buffer.from('other') })])
    })

    await expect(writing).rejects.toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
    expect(await world.command('EXISTS', business)).toBe(0)
  })
})

describe('counts and hints', () => {
  it.each(['xadd', 'hincrby', 'hsetnx'])('do not fail the script if the server refuses %s', async (command) => {
    await using server = await startRedis()
    await using world = await LuaWorld.open({ url: server.url })
    await world.command('ACL', 'SETUSER', 'default', `-${command}`)

    await world.redis.write(async (transaction) => world.store.append(transaction, records(2)))
    expect(await world.store.enqueue([record('e3')])).toEqual(['inserted'])
    const claimed = await world.store.claim({ limit: 10, lease })

    expect(idsOf(claimed)).toEqual(['e1', 'e2', 'e3'])
    expect(await world.store.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))).toEqual([
      'applied',
      'applied',
      'applied',
    ])
  })
})

describe('a claim', () => {
  it('lets each of its destinations have a turn, however small it is', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([...records(5, 'a', { destination: 'a' }), ...records(5, 'b', { destination: 'b' })])
    const seen: string[] = []

    for (let round = 0; round < 4; round += 1) {
      const claimed = await world.store.claim({ limit: 1, lease, destinations: ['a', 'b'] })
      seen.push(...claimed.map(({ destination }) => destination))
    }

    expect(seen.toSorted()).toEqual(['a', 'a', 'b', 'b'])
  })

  it('whose second step fails returns the records of the first', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue(records(1500))
    expect(await world.store.claim({ limit: 1500, lease })).toHaveLength(1500)
    await world.advance(lease + 1)
    let calls = 0
    const port: RedisPort = {
      ...world.port,
      evaluate(script, keys, args, options) {
        calls += 1
        return calls === 2
          ? Promise.reject(new Error('LOADING Redis is loading the dataset in memory'))
          : world.port.evaluate(script, keys, args, options)
      },
    }
    const store = luaOutbox(new Redis({}, port, { logger: world.logger }), { tag: world.tag })

    const claimed = await store.claim({ limit: 1500, lease })

    expect(claimed).toHaveLength(1000)
    expect(world.logger.at('warn').map(({ text }) => text)).toEqual([expect.stringContaining('could not be claimed')])
  })
})

describe('an outbox that gets more shards', () => {
  it('finds records that were stored before', async () => {
    await using world = await LuaWorld.open({ outbox: { shards: 1 } })
    await world.store.enqueue(records(3))
    const wider = world.another({ shards: 3 })

    const claimed = await wider.claim({ limit: 10, lease })

    expect(idsOf(claimed)).toEqual(['e1', 'e2', 'e3'])
    expect(await wider.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))).toEqual([
      'applied',
      'applied',
      'applied',
    ])
  })
})
