import { describe, expect, it } from 'vitest'
import { redisKey } from '../../../src/client/keys.ts'
import type { RedisPort, Reply } from '../../../src/client/port.ts'
import { takeFresh } from '../../../src/outbox/stream/scripts/claim-scripts.ts'
import { streamOutbox } from '../../../src/outbox/stream/stream-outbox.ts'
import { Redis } from '../../../src/transaction/redis.ts'
import { until } from '../../support/until.ts'
import { movedClock } from './moved-clock.ts'
import { record, StreamWorld } from './stream-world.ts'

const hour = 3_600_000
const lease = 60_000

function referenceOf(id: string, destination = 'orders') {
  return { destination, source: '/shop', id }
}

async function stored(world: StreamWorld): Promise<(string | undefined)[]> {
  return (await world.store.list({}, { limit: 100 })).records.map(({ message }) => message.id)
}

describe('cancel in a transaction', () => {
  it.each([
    ['nobody has read', false],
    ['a relay has put aside', true],
  ])('removes an entry that %s, together with the business write', async (_, isRead) => {
    await using world = await StreamWorld.open()
    await world.append(record('reminder', { delay: hour }), record('other', { delay: hour }))
    if (isRead) expect(await world.store.claim({ limit: 10, lease })).toEqual([])
    const order = world.redis.key(world.tag, 'order')

    await world.redis.write(async (transaction) => {
      await world.redis.commands().set(order, 'paid')
      expect(await world.store.cancel(transaction, [referenceOf('reminder'), referenceOf('unknown')])).toBeUndefined()
      expect(await stored(world)).toEqual(['reminder', 'other'])
    })

    expect(await world.command('GET', order)).toBe('paid')
    expect(await stored(world)).toEqual(['other'])
    if (isRead) expect(await world.pending()).toHaveLength(1)
    await world.command('DEL', order)
  })

  it('finds an entry behind many others', async () => {
    await using world = await StreamWorld.open()
    await world.append(...Array.from({ length: 250 }, (_, index) => record(`e${index}`)), record('reminder', { delay: hour }))
    await world.redis.write(async (transaction) => {
      await world.store.cancel(transaction, [referenceOf('reminder'), referenceOf('e249')])
    })
    expect((await world.store.list({ state: 'waiting' }, { limit: 10 })).records).toEqual([])
    expect(await world.store.claim({ limit: 1000, lease })).toHaveLength(250)
  })

  it('drops records that the transaction has appended before, across nested transactions that commit', async () => {
    await using world = await StreamWorld.open()
    await world.redis.write(async (transaction) => {
      await world.store.append(transaction, [record('a', { delay: hour }), record('b', { delay: hour }), record('now')])
      await world.redis.write(async (inner) => {
        await world.store.append(inner, [record('c', { delay: hour })])
        await world.store.cancel(inner, [referenceOf('a'), referenceOf('now')])
      })
      const undone = world.redis.write(async (inner) => {
        await world.store.cancel(inner, [referenceOf('b')])
        throw new Error('not today')
      })
      await expect(undone).rejects.toThrow('not today')
      await world.store.cancel(transaction, [referenceOf('c')])
      await world.store.append(transaction, [record('a', { delay: 2 * hour })])
    })
    expect(await stored(world)).toEqual(['b', 'now', 'a'])
  })

  it('is refused as a whole if a key of the outbox has the wrong type', async () => {
    await using world = await StreamWorld.open()
    await world.append(record('reminder', { delay: hour }))
    await world.command('SET', world.key('retry'), 'a text')
    const order = world.redis.key(world.tag, 'order')
    const writing = world.redis.write(async (transaction) => {
      await world.redis.commands().set(order, 'paid')
      await world.store.cancel(transaction, [referenceOf('reminder')])
    })
    await expect(writing).rejects.toThrow(world.key('retry'))
    expect(await world.command('EXISTS', order)).toBe(0)
    expect(await world.command('XLEN', world.key('to'))).toBe(1)
  })

  it('is refused for a record under a tag in another slot than the keys of the transaction', async () => {
    await using world = await StreamWorld.open()
    await world.append(record('reminder', { delay: hour }))
    const store = world.another({ tags: [`${world.tag}-2`, world.tag] })
    const writing = world.redis.write(async (transaction) => {
      await world.redis.commands().set(world.redis.key(`${world.tag}-2`, 'order'), 'paid')
      await store.cancel(transaction, [referenceOf('reminder')])
    })
    await expect(writing).rejects.toMatchObject({ code: 'ACKORD_CROSS_SLOT' })
  })

  it('works while a claim has read the entry and not put it aside yet', async () => {
    await using world = await StreamWorld.open()
    await world.append(record('reminder', { delay: hour }))
    const port: RedisPort = {
      ...world.port,
      async evaluate(script, keys, args, options): Promise<Reply> {
        const reply = await world.port.evaluate(script, keys, args, options)
        if (script === takeFresh) {
          await world.redis.write(async (transaction) => {
            await world.store.cancel(transaction, [referenceOf('reminder')])
          })
        }
        return reply
      },
    }
    const relay = streamOutbox(new Redis({}, port, { logger: world.logger }), { tags: [world.tag] })
    expect(await relay.claim({ limit: 10, lease })).toEqual([])
    expect(await stored(world)).toEqual([])
    expect(await world.pending()).toEqual([])
  })
  it('works while a claim that has read the entry puts it aside after its delay has ended', async () => {
    await using world = await StreamWorld.open()
    await world.append(record('reminder', { delay: hour }), record('kept', { delay: hour }))
    const clock = redisKey(world.tag, 'clock')
    const moved = movedClock(world.port, clock)
    const port: RedisPort = {
      ...moved.port,
      async evaluate(script, keys, args, options): Promise<Reply> {
        const reply = await moved.port.evaluate(script, keys, args, options)
        if (script === takeFresh) {
          await world.redis.write(async (transaction) => {
            await world.store.cancel(transaction, [referenceOf('reminder')])
          })
          await moved.move(2 * hour, [], 'relay')
        }
        return reply
      },
    }
    const relay = streamOutbox(new Redis({}, port, { logger: world.logger }), { tags: [world.tag] })
    expect((await relay.claim({ limit: 10, lease })).map(({ message }) => message.id)).toEqual(['kept'])
    await world.command('DEL', clock)
  })
})

it('a late answer to a claim makes no delayed record ready before its delay has ended', async () => {
  await using world = await StreamWorld.open()
  await world.append(record('reminder', { delay: hour }), record('now'))
  const port: RedisPort = {
    ...world.port,
    async evaluate(script, keys, args, options): Promise<Reply> {
      if (script !== takeFresh) return await world.port.evaluate(script, keys, args, options)
      options?.onLate?.(world.port.evaluate(script, keys, args, { binary: true }))
      throw new Error('no answer in time')
    },
  }
  const relay = streamOutbox(new Redis({}, port, { logger: world.logger }), { tags: [world.tag] })
  await expect(relay.claim({ limit: 10, lease })).rejects.toThrow('no answer in time')
  const waitingEntries = async () => (await world.pending()).filter(([, consumer]) => consumer === 'waiting').length
  await until('both entries are put back', async () => (await waitingEntries()) === 2)
  expect((await world.store.claim({ limit: 10, lease })).map(({ message }) => message.id)).toEqual(['now'])
  expect((await world.store.list({ state: 'waiting' }, { limit: 10 })).records.map(({ message }) => message.id)).toEqual(['reminder'])
})
