import { silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { expect, it, vi } from 'vitest'
import { startRedis } from '../../../../../scripts/servers/index.mjs'
import { redisKinds } from '../../support/redis-clients.ts'
import { idsOf, lease, record, records, StreamWorld } from './stream-world.ts'

const clients = redisKinds.filter(({ name }) => name === 'ioredis 6' || name === 'node-redis')
const published = ({ id, token }: { readonly id: string; readonly token: string }) => ({ id, token, result: 'published' }) as const

it('with full memory, settle, renew and release still work, and append stores nothing', async () => {
  await using server = await startRedis()
  await using world = await StreamWorld.open({ url: server.url })
  await world.append(...records(6))
  const [done, failed, parked, released, renewed, retried] = await world.store.claim({ limit: 6, lease })
  if (!(done && failed && parked && released && renewed && retried)) throw new Error('expected six claimed records')
  await world.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
  await world.command('CONFIG', 'SET', 'maxmemory', '1')

  await expect(world.append(record('refused'))).rejects.toThrow('OOM')
  const answers = await world.store.settle([
    published(done),
    { id: failed.id, token: failed.token, result: 'failed', error: 'x', retryAfter: 3_600_000 },
    { id: parked.id, token: parked.token, result: 'parked', error: 'x' },
    { id: retried.id, token: retried.token, result: 'failed', error: 'x', retryAfter: 0 },
  ])
  expect(answers).toEqual(['applied', 'applied', 'applied', 'applied'])
  await world.store.release([released])
  expect(await world.store.renew([renewed], lease)).toEqual([true])
  expect(idsOf(await world.store.claim({ limit: 10, lease })).sort()).toEqual(['e4', 'e6'])
  expect(await world.store.rearm({ ids: [parked.id] })).toBe(1)

  await world.command('CONFIG', 'SET', 'maxmemory', '0')
  const { records: left } = await world.store.list({}, { limit: 10 })
  expect(left.map(({ message, state }) => [message.id, state])).toEqual([
    ['e2', 'waiting'],
    ['e3', 'ready'],
    ['e4', 'leased'],
    ['e5', 'leased'],
    ['e6', 'leased'],
  ])
})

it('loses no record if the server refuses a write in the middle of a settlement for a missing permission', async () => {
  await using server = await startRedis()
  await using world = await StreamWorld.open({ url: server.url })
  await world.append(...records(3))
  const held = await world.store.claim({ limit: 3, lease })
  const outcomes = held.map(({ id, token }) => ({ id, token, result: 'failed', error: 'x', retryAfter: 0 }) as const)
  for (const command of ['zadd', 'hset', 'xclaim']) {
    await world.command('ACL', 'SETUSER', 'default', `-${command}`)
    await expect(world.store.settle(outcomes)).rejects.toThrow()
    await world.command('ACL', 'SETUSER', 'default', `+${command}`)
  }
  await world.age(held)
  expect(idsOf(await world.another().claim({ limit: 10, lease })).sort()).toEqual(['e1', 'e2', 'e3'])
})

it.each(clients)('continues to work after SCRIPT FLUSH at any time: $name', async (kind) => {
  await using server = await startRedis()
  await using world = await StreamWorld.open({ kind, url: server.url })
  const flush = () => world.command('SCRIPT', 'FLUSH')
  await world.append(...records(4), record('later', { delay: 3_600_000 }))
  await flush()
  const [done, failed, parked, released] = await world.store.claim({ limit: 10, lease })
  if (!(done && failed && parked && released)) throw new Error('expected four claimed records')
  await flush()
  expect(await world.store.renew([done], lease)).toEqual([true])
  await flush()
  await world.store.release([released])
  await flush()
  const answers = await world.store.settle([
    published(done),
    { id: failed.id, token: failed.token, result: 'failed', error: 'x', retryAfter: 0 },
    { id: parked.id, token: parked.token, result: 'parked', error: 'x' },
  ])
  expect(answers).toEqual(['applied', 'applied', 'applied'])
  await flush()
  expect(await world.store.rearm({ ids: [parked.id] })).toBe(1)
  await flush()
  expect((await world.store.stats()).destinations).toMatchObject([{ ready: 3, waiting: 1 }])
  await flush()
  expect(idsOf(await world.store.claim({ limit: 10, lease })).sort()).toEqual(['e2', 'e3', 'e4'])
})

it.each(clients)('a relay continues after FLUSHALL while it runs: $name', async (kind) => {
  await using server = await startRedis()
  await using world = await StreamWorld.open({ kind, url: server.url, outbox: { block: 50 } })
  const arrived: (string | undefined)[] = []
  let flushed = false
  const relay = new Relay(world.store, {
    pollInterval: 20,
    logger: silentLogger,
    publisher: {
      async publish(_, messages) {
        if (!flushed) await world.command('FLUSHALL')
        flushed = true
        arrived.push(...messages.map(({ id }) => id))
        return messages.map(() => ({ ok: true }))
      },
    },
  })
  relay.start()
  await world.append(...records(5))
  await vi.waitFor(() => expect(arrived).toHaveLength(5), 15_000)
  await world.append(record('after'))
  await vi.waitFor(() => expect(arrived).toContain('after'), 15_000)
  await relay.stop()
  expect((await world.store.stats()).destinations).toEqual([])
})

it('the state is the same after the server was killed and restarted', async () => {
  await using server = await startRedis({ args: ['--appendfsync', 'always'] })
  await using world = await StreamWorld.open({ url: server.url })
  await world.append(...records(6), record('later', { delay: 3_600_000 }))
  const [done, failed, parked, released, held] = await world.store.claim({ limit: 5, lease })
  if (!(done && failed && parked && released && held)) throw new Error('expected five claimed records')
  await world.store.release([released])
  await world.store.settle([
    published(done),
    { id: failed.id, token: failed.token, result: 'failed', error: 'refused', retryAfter: 3_600_000 },
    { id: parked.id, token: parked.token, result: 'parked', error: 'too large' },
  ])
  const before = await world.store.list({}, { limit: 10 })
  await server.kill()
  await server.restart()
  const after = await vi.waitFor(() => world.store.list({}, { limit: 10 }), 10_000)
  const shown = ({ records: all }: typeof before) =>
    all.map(({ id, state, attempts, lastError, parkedAt, availableAt, message }) => ({
      id,
      state,
      attempts,
      lastError,
      parkedAt,
      availableAt,
      message: message.id,
    }))
  expect(shown(after)).toEqual(shown(before))
  expect(await world.store.settle([published(held)])).toEqual(['applied'])
  expect(idsOf(await world.store.claim({ limit: 10, lease })).sort()).toEqual(['e4', 'e6'])
})
