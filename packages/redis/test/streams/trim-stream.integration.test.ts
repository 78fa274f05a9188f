import { describe, expect, it } from 'vitest'
import type { RedisPort } from '../../src/client/port.ts'
import { trimStream } from '../../src/streams/index.ts'
import { internalsOf, Redis } from '../../src/transaction/redis.ts'
import { redisKinds } from '../support/redis-clients.ts'
import { event, idsOf, numbered, open, openStreams, take, until } from './world.ts'

describe.each(redisKinds)('trimming on $name', (kind) => {
  it('deletes entries that every group has acked, and no others [B13]', async () => {
    await using world = await openStreams(kind)
    const { redis, stream } = world
    await world.fill(numbered(10))
    expect(await trimStream(redis, { stream })).toBe(0)
    const billing = await take(open(world.source()), 10)
    const shipping = await take(open(world.source({ group: 'shipping', prefetch: 8 })), 6)
    for (const message of billing) if (message.id !== 'm4') await message.ack()
    for (const message of shipping) await message.ack()
    // m4 is pending for one group.
    expect(await trimStream(redis, { stream })).toBe(4)
    await billing[4]?.ack()
    const before = await world.length()
    await trimStream(redis, { stream })
    expect(before).toBe(6)
    expect(await world.length()).toBeLessThan(6)
    expect(await world.length()).toBeGreaterThanOrEqual(2)
  })
})

describe.each([
  ['by MINID where the server has it', true],
  ['with the commands of 6.0', false],
])('trimming %s', (_, minId) => {
  it.each([7, 50, 300])('deletes no more than the limit of %i in one step', async (limit) => {
    await using world = await openStreams()
    const { stream } = world
    await world.fill(numbered(1000))
    await world.command('XGROUP', 'CREATE', stream, 'billing', '$')
    const { port } = internalsOf(world.redis)
    const steps: number[] = []
    const counting: RedisPort = {
      ...port,
      async evaluate(...call) {
        const reply = await port.evaluate(...call)
        steps.push(Number((reply as readonly unknown[])[0]))
        return reply
      },
    }
    expect(await trimStream(new Redis({}, counting), { stream, limit, minId })).toBe(1000)
    expect(Math.max(...steps)).toBeLessThanOrEqual(limit)
    expect(await world.length()).toBe(0)
  })

  it('deletes all in bounded steps, and keeps entries that are nacked or not read yet [B13]', async () => {
    await using world = await openStreams()
    const { redis, stream } = world
    await world.fill(numbered(500))
    const messages = open(world.source({ prefetch: 500 }))
    const all = await take(messages, 500)
    expect(idsOf(all)).toEqual(numbered(500))
    await messages.return?.()
    for (const message of all.slice(0, 400)) void message.ack()
    await all[400]?.nack(new Error('later'), { retryAfter: 3_600_000 })
    await Promise.all(all.slice(401).map((message) => message.ack()))
    await until(async () => (await world.pending()) === 1)
    await world.fill(['fresh'])
    expect(await trimStream(redis, { stream, limit: 30, minId })).toBe(400)
    expect(await world.length()).toBe(101)
    // Once the message is settled, all entries up to the last one read are deleted.
    const retry = `{${stream}}:retry:billing`
    const [id] = (await world.command('ZRANGE', retry, '0', '0')) as [string]
    await world.command('ZADD', retry, '1', id)
    const rest = await take(open(world.source()), 2)
    expect(idsOf(rest).sort()).toEqual(['fresh', 'm400'])
    for (const message of rest) await message.ack()
    expect(await trimStream(redis, { stream, limit: 30, minId })).toBe(101)
    expect(await world.length()).toBe(0)
    expect(await trimStream(redis, { stream, minId })).toBe(0)
  })
})

describe('a source that trims', () => {
  it('does so periodically, on all shards, and loses nothing meanwhile', async () => {
    await using world = await openStreams()
    const publisher = world.publisher({ shards: 2 })
    const stop = new AbortController()
    const received: (string | undefined)[] = []
    const consuming = (async () => {
      for await (const message of world.source({ shards: 2, trimInterval: 5 }).messages({ signal: stop.signal })) {
        received.push(message.id)
        await message.ack()
      }
    })()
    for (let round = 0; round < 20; round += 1) {
      await publisher.publish(
        world.stream,
        numbered(10, `r${round}-`).map((id) => event(id)),
        { signal: stop.signal },
      )
    }
    await until(
      async () => (await world.length(`${world.stream}:0`)) + (await world.length(`${world.stream}:1`)) === 0 && received.length >= 200,
    )
    stop.abort()
    await consuming
    expect(new Set(received).size).toBe(200)
  })
})
