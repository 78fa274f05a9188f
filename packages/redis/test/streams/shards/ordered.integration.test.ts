import { publishAll, type RawMessage } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import type { RedisPort } from '../../../src/client/port.ts'
import { streamSource } from '../../../src/streams/index.ts'
import { internalsOf, Redis } from '../../../src/transaction/redis.ts'
import { event, idsOf, next, numbered, open, openStreams, type StreamWorld, take, until } from '../world.ts'

const ordered = { order: 'perKey', block: 50 } as const

function keyed(id: string): RawMessage {
  return event(id, { partitionkey: id[0] })
}

async function fill(world: StreamWorld, ids: readonly string[], shards?: number): Promise<void> {
  await publishAll(world.publisher({ shards }), world.stream, ids.map(keyed))
}

describe('order per key [B20]', () => {
  it('delivers one message of a key at a time, the next one when it is acked or dead-lettered', async () => {
    await using world = await openStreams()
    await fill(world, ['a1', 'a2', 'b1', 'a3', 'b2'])
    const messages = open(world.source(ordered))
    const [a1, b1] = await take(messages, 2)
    expect([a1?.id, b1?.id]).toEqual(['a1', 'b1'])
    await b1?.ack()
    const b2 = await next(messages)
    expect(b2.id).toBe('b2')
    await a1?.reject(new Error('never'))
    const a2 = await next(messages)
    expect(a2.id).toBe('a2')
    await a2.ack()
    const a3 = await next(messages)
    expect([a3.id, a3.deliveryCount]).toEqual(['a3', 1])
    await a3.ack()
    await b2.ack()
    expect(await world.pending()).toBe(0)
  })

  it('a nacked message blocks its key and no other, however long it waits', async () => {
    await using world = await openStreams()
    await fill(world, ['a1', 'a2', 'b1', 'b2'])
    const messages = open(world.source({ ...ordered, prefetch: 1 }))
    await (await next(messages)).nack(new Error('not now'), { retryAfter: 3_600_000 })
    for (const id of ['b1', 'b2']) {
      const message = await next(messages)
      expect(message.id).toBe(id)
      await message.ack()
    }
    expect(await world.pending()).toBe(2)
  })

  it('delivers a nacked message again before those behind it, and counts its deliveries', async () => {
    await using world = await openStreams()
    await fill(world, ['a1', 'a2'])
    const messages = open(world.source(ordered))
    for (const expected of [1, 2, 3]) {
      const message = await next(messages)
      expect([message.id, message.deliveryCount]).toEqual(['a1', expected])
      await (expected === 3 ? message.ack() : message.nack(new Error('not now'), { retryAfter: 10 }))
    }
    expect((await next(messages)).id).toBe('a2')
  })

  it('is not blocked by a key with more messages than prefetch, and reads those when their turn comes', async () => {
    await using world = await openStreams()
    const hot = numbered(60, 'a')
    await fill(world, [...hot, 'b1'])
    const messages = open(world.source({ ...ordered, prefetch: 4 }))
    const first = await next(messages)
    const other = await next(messages)
    expect([first.id, other.id]).toEqual(['a0', 'b1'])
    await other.ack()
    await first.ack()
    for (const id of hot.slice(1)) {
      const message = await next(messages)
      expect(message.id).toBe(id)
      await message.ack()
    }
    expect(await world.pending()).toBe(0)
  })

  it('one instance reads a shard, and releases it when it stops, without counting deliveries that were not yielded', async () => {
    await using world = await openStreams()
    await fill(world, ['a1', 'a2', 'a3', 'b1'])
    const first = open(world.source({ ...ordered, prefetch: 1 }))
    const a1 = await next(first)
    const second = open(world.source(ordered, await world.another()))
    const pulled = next(second)
    await until(async () => Number(await world.command('ZCARD', `{${world.stream}}:members:billing`)) === 2)
    const left = first.return?.()
    // The shard is not released while a message is in flight.
    expect(await world.command('EXISTS', `{${world.stream}}:lease:billing`)).toBe(1)
    await a1.ack()
    await left
    const seen = [await pulled]
    seen.push(await next(second))
    expect(seen.map(({ id, deliveryCount }) => [id, deliveryCount])).toEqual([
      ['a2', 1],
      ['b1', 1],
    ])
    await seen[0]?.ack()
    const a3 = await next(second)
    expect([a3.id, a3.deliveryCount]).toEqual(['a3', 1])
  })

  it('continues in order where a crashed instance was, once its lease has expired', async () => {
    await using world = await openStreams()
    await fill(world, ['a1', 'a2', 'b1', 'a3'])
    const doomed = await world.another()
    const messages = open(world.source({ ...ordered, lease: 1500 }, doomed))
    const [a1] = await take(messages, 2)
    await a1?.ack()
    await next(messages)
    // Simulates a crash: no stop, no release.
    await doomed[Symbol.asyncDispose]()
    const second = open(world.source({ ...ordered, lease: 1500 }))
    const again = await take(second, 2)
    expect(again.map(({ id, deliveryCount }) => [id, deliveryCount])).toEqual([
      ['a2', 2],
      ['b1', 2],
    ])
    await again[0]?.ack()
    expect((await next(second)).id).toBe('a3')
  })

  it('releases a lease if the answer was lost', async () => {
    await using world = await openStreams()
    await fill(world, ['a1'])
    const { port, logger } = internalsOf(world.redis)
    let lost = 0
    const losing: RedisPort = {
      ...port,
      send: async (command, options) => {
        const reply = await port.send(command, options)
        if (command.name !== 'SET' || lost > 0) return reply
        lost += 1
        throw new Error('the connection was lost')
      },
    }
    const redis = new Redis({}, losing, { logger })
    await using source = streamSource(redis, { stream: world.stream, group: 'billing', ...ordered, lease: 3_600_000, backoff: () => 20 })
    expect((await next(open(source))).id).toBe('a1')
    expect(lost).toBe(1)
  })

  it('keeps the order when another instance reads with a lease that has expired unnoticed', async () => {
    await using world = await openStreams()
    await fill(world, ['a1'])
    const messages = open(world.source(ordered))
    const a1 = await next(messages)
    // Simulates a late read of a previous owner: entries are delivered to a consumer that does not own the shard.
    await fill(world, ['x0'])
    const x0 = await next(messages)
    await world.command('MULTI')
    await world.command('XADD', world.stream, '*', 'id', 'a2', 'partitionkey', 'a', 'data', '')
    await world.command('XREADGROUP', 'GROUP', 'billing', 'zombie', 'STREAMS', world.stream, '>')
    await world.command('XADD', world.stream, '*', 'id', 'a3', 'partitionkey', 'a', 'data', '')
    await world.command('EXEC')
    await x0.ack()
    await a1.ack()
    const rest: RawMessage[] = []
    for (let count = 0; count < 2; count += 1) {
      const message = await next(messages)
      rest.push(message)
      await message.ack()
    }
    expect(idsOf(rest)).toEqual(['a2', 'a3'])
  })

  it('leaves a shard whose lease another instance has, and settles nothing of it', async () => {
    await using world = await openStreams()
    await fill(world, ['a1', 'a2'])
    const stalled = open(world.source(ordered))
    const a1 = await next(stalled)
    const pulled = next(stalled)
    const [[id]] = (await world.command('XPENDING', world.stream, 'billing', '-', '+', '1')) as [[string]]
    // Its lease expired while it stalled, and another instance acquired the shard.
    await world.command('SET', `{${world.stream}}:lease:billing`, 'another', 'PX', '60000')
    await world.command('XCLAIM', world.stream, 'billing', 'another', '0', id)
    await expect(a1.ack()).rejects.toThrow('taken over')
    await until(() => world.logger.at('warn').some(({ text }) => text.includes('The lease of a shard was lost')))
    expect(await world.pending()).toBe(2)
    // The other instance ends, too: all entries are delivered again, in order.
    await world.command('DEL', `{${world.stream}}:lease:billing`)
    const again = await pulled
    expect([again.id, again.deliveryCount]).toEqual(['a1', 3])
    await again.ack()
    const a2 = await next(stalled)
    expect(a2.id).toBe('a2')
    await a2.ack()
    expect(await world.pending()).toBe(0)
  })

  it('keeps the order of first deliveries while leases are taken away from three instances again and again', async () => {
    await using world = await openStreams()
    const keys = numbered(12, 'k')
    const messages = numbered(360).map((id, index) => event(id, { partitionkey: keys[index % keys.length] }))
    await publishAll(world.publisher({ shards: 3 }), world.stream, messages)
    const first = new Map<string, Set<string | undefined>>(keys.map((key) => [key, new Set()]))
    const done = new Set<string | undefined>()
    const stop = new AbortController()
    const consume = async () => {
      const source = world.source({ ...ordered, block: 10, shards: 3, prefetch: 9 }, await world.another())
      for await (const message of source.messages({ signal: stop.signal })) {
        first.get(message.partitionKey ?? '')?.add(message.id)
        // Some messages are still being handled while the lease is lost.
        const acked = Number(message.id?.slice(1)) % 5 === 0 ? new Promise(setImmediate).then(() => message.ack()) : message.ack()
        void acked.then(
          () => done.add(message.id),
          () => {},
        )
      }
    }
    const instances = [consume(), consume(), consume()]
    for (let round = 0; done.size < messages.length; round += 1) {
      await world.command('DEL', `{${world.stream}:${round % 3}}:lease:billing`)
      const before = done.size
      await until(() => done.size > before + 2 || done.size >= messages.length)
    }
    stop.abort()
    await Promise.all(instances)
    for (const [key, ids] of first) expect([...ids]).toEqual(idsOf(messages.filter(({ partitionKey }) => partitionKey === key)))
    const pending = await Promise.all([0, 1, 2].map((index) => world.pending('billing', `${world.stream}:${index}`)))
    expect(pending).toEqual([0, 0, 0])
  })

  it('divides the shards evenly among instances, as they come and go', async () => {
    await using world = await openStreams()
    const leases = async () => {
      const holders = await Promise.all(numbered(5, '').map((index) => world.command('GET', `{${world.stream}:${index}}:lease:billing`)))
      const counts = new Map<string, number>()
      for (const holder of holders) {
        const name = holder === null ? 'nobody' : String(holder).split(':')[0]
        counts.set(name ?? '', (counts.get(name ?? '') ?? 0) + 1)
      }
      return counts.has('nobody') ? [] : [...counts.values()].sort()
    }
    const start = () => {
      const messages = open(world.source({ ...ordered, shards: 5 }))
      void messages.next()
      return messages
    }
    const instances = [start()]
    await until(async () => String(await leases()) === '5')
    instances.push(start())
    await until(async () => String(await leases()) === '2,3')
    instances.push(start())
    await until(async () => String(await leases()) === '1,2,2')
    await instances.shift()?.return?.()
    await until(async () => String(await leases()) === '2,3')
    await instances.shift()?.return?.()
    await until(async () => String(await leases()) === '5')
    expect(await leases()).toEqual([5])
  })

  it('continues in order after the stream was deleted', async () => {
    await using world = await openStreams()
    await fill(world, ['a1', 'a2'])
    const messages = open(world.source(ordered))
    const a1 = await next(messages)
    await world.command('DEL', world.stream)
    await fill(world, ['a3', 'a4'])
    const a3 = await next(messages)
    expect(a3.id).toBe('a3')
    await a1.ack().catch(() => {})
    await a3.ack()
    const a4 = await next(messages)
    expect(a4.id).toBe('a4')
    await a4.ack()
    expect(await world.pending()).toBe(0)
  })
})
