import { silentLogger, systemRuntime } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { expect, it, vi } from 'vitest'
import { redisKey } from '../../../src/client/keys.ts'
import { streamOutbox } from '../../../src/outbox/stream/stream-outbox.ts'
import { internalsOf, Redis } from '../../../src/transaction/redis.ts'
import { movedClock } from './moved-clock.ts'
import { idsOf, lease, record, StreamWorld } from './stream-world.ts'

const published = ({ id, token }: { readonly id: string; readonly token: string }) => ({ id, token, result: 'published' }) as const
const names = (count: number) => Array.from({ length: count }, (_, index) => `d${index}`)

async function drain(world: StreamWorld): Promise<number> {
  let count = 0
  for (;;) {
    const held = await world.store.claim({ limit: 1000, lease })
    if (held.length === 0) return count
    count += held.length
    await world.store.settle(held.map(published))
  }
}

it('claims ask only for destinations that have records', async () => {
  await using world = await StreamWorld.open()
  for (const destination of names(100)) await world.append(record('e1', { destination }))
  expect(await drain(world)).toBe(100)
  await world.store.claim({ limit: 10, lease })
  expect(await world.command('SMEMBERS', world.destinationsKey)).toEqual([])

  const { port } = internalsOf(world.redis)
  let keys = 0
  const counting = new Redis(
    {},
    {
      ...port,
      evaluate(script, named, ...more) {
        keys += named.length
        return port.evaluate(script, named, ...more)
      },
    },
  )
  const store = streamOutbox(counting, { tags: [world.tag], claimInterval: 0 })
  await world.append(record('e2', { destination: 'd7' }))
  expect(idsOf(await store.claim({ limit: 10, lease }))).toEqual(['e2'])
  expect(keys).toBeLessThan(30)
})

it('a destination with parked, delayed or claimed records stays', async () => {
  await using world = await StreamWorld.open()
  await world.append(
    record('parked', { destination: 'parked' }),
    record('held', { destination: 'held' }),
    record('delayed', { destination: 'delayed', delay: 3_600_000 }),
    record('done', { destination: 'done' }),
  )
  const held = await world.store.claim({ limit: 10, lease })
  const of = (id: string) => held.find(({ message }) => message.id === id) as (typeof held)[number]
  await world.store.settle([published(of('done')), { ...of('parked'), result: 'parked', error: 'too large' }])
  for (let round = 0; round < 3; round += 1) await world.store.claim({ limit: 10, lease })
  expect(((await world.command('SMEMBERS', world.destinationsKey)) as string[]).sort()).toEqual(['delayed', 'held', 'parked'])
  expect((await world.store.stats()).destinations.map(({ destination }) => destination).sort()).toEqual(['delayed', 'held', 'parked'])
  expect(await world.store.rearm({ ids: [of('parked').id] })).toBe(1)
  expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['parked'])
})

it('the keys of a destination are deleted when it has had no record for the idle time', async () => {
  await using world = await StreamWorld.open({ outbox: { idleTime: 50 } })
  await world.append(record('e1'))
  await drain(world)
  expect(await world.command('EXISTS', world.key('to'))).toBe(1)
  await vi.waitFor(async () => {
    await world.store.claim({ limit: 10, lease })
    for (const key of [...world.allKeys(), world.emptyKey]) expect(await world.command('EXISTS', key)).toBe(0)
  }, 15_000)
  await world.append(record('e2'))
  expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e2'])
  expect(world.logger.at('warn')).toEqual([])
})

it('deletes the keys of many destinations in consecutive claims, without waiting for further idle times', async () => {
  await using world = await StreamWorld.open()
  const clock = redisKey(world.tag, 'clock')
  const { port, move } = movedClock(world.port, clock)
  let later = 0
  const runtime = { ...systemRuntime, monotonic: () => systemRuntime.monotonic() + later }
  const redis = new Redis({}, port, { runtime, logger: world.logger })
  const store = streamOutbox(redis, { tags: [world.tag], claimInterval: 0, idleTime: 3_600_000 })
  await world.append(...names(250).map((destination) => record('e1', { destination })))
  await store.settle((await store.claim({ limit: 1000, lease })).map(published))
  await store.claim({ limit: 10, lease })
  expect(await world.command('ZCARD', world.emptyKey)).toBe(250)

  later = 7_200_000
  await move(later, [], 'relay')
  for (const left of [150, 50, 0]) {
    await store.claim({ limit: 10, lease })
    expect(await world.command('ZCARD', world.emptyKey)).toBe(left)
  }
  for (const destination of ['d0', 'd249']) expect(await world.command('EXISTS', ...world.allKeys(destination))).toBe(0)
  await world.command('DEL', clock)
})

it('drops destinations of an outbox that an earlier version has filled', async () => {
  await using world = await StreamWorld.open()
  for (const destination of names(20)) {
    await world.command('SADD', world.destinationsKey, destination)
    await world.command('XGROUP', 'CREATE', world.key('to', destination), 'relay', '0', 'MKSTREAM')
  }
  for (let round = 0; round < 3; round += 1) expect(await world.store.claim({ limit: 10, lease })).toEqual([])
  expect(await world.command('SMEMBERS', world.destinationsKey)).toEqual([])
})

it('loses no record that is stored while destinations are dropped and deleted', { timeout: 60_000 }, async () => {
  // Destinations are dropped by every claim that finds them empty, and deleted a millisecond later.
  await using world = await StreamWorld.open({ outbox: { idleTime: 1, block: 20 } })
  const arrived: string[] = []
  const publisher = {
    async publish(destination: string, messages: readonly { readonly id?: string | undefined }[]) {
      arrived.push(...messages.map(({ id }) => `${destination} ${id}`))
      return messages.map(() => ({ ok: true }) as const)
    },
  }
  const relays = [1, 2].map(() => new Relay(world.another(), { publisher, pollInterval: 5, logger: silentLogger }))
  for (const relay of relays) relay.start()
  const expected: string[] = []
  const appending = names(5).map(async (destination, position) => {
    for (let index = 0; index < 150; index += 1) {
      await world.append(record(`e${index}`, { destination }))
      expected.push(`${destination} e${index}`)
      // Varies the pauses, so that the destination is empty in between for shorter and longer times.
      await new Promise((resolve) => setTimeout(resolve, (index * (position + 3)) % 17))
    }
  })
  await Promise.all(appending)
  await vi.waitFor(() => expect(new Set(arrived).size).toBe(expected.length), 30_000)
  for (const relay of relays) await relay.stop()
  expect(arrived.sort()).toEqual(expected.sort())
})
