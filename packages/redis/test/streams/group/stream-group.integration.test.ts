import { describe, expect, it } from 'vitest'
import { StreamGroup } from '../../../src/streams/group/stream-group.ts'
import { ShardLease } from '../../../src/streams/shards/shard-ownership.ts'
import { internalsOf } from '../../../src/transaction/redis.ts'
import { redisKinds } from '../../support/redis-clients.ts'
import { numbered, openStreams, type StreamWorld } from '../world.ts'

async function openGroup(world: StreamWorld, consumer = 'me'): Promise<StreamGroup> {
  const internals = internalsOf(world.redis)
  const group = new StreamGroup(internals, { stream: world.stream, group: 'billing', consumer, deadLetter: `{${world.stream}}:dead` })
  await group.create('0')
  return group
}

describe.each(redisKinds)('the scripts of a group on $name', (kind) => {
  it('can be sent twice, as a client does after a lost answer', async () => {
    await using world = await openStreams(kind)
    await world.fill(numbered(3))
    const group = await openGroup(world)
    const connection = await internalsOf(world.redis).port.dedicate()
    const [a, b, c] = (await group.read(connection, 10, 10)).map(({ id, deliveries }) => ({ id, deliveries }))
    await connection.close()
    if (a === undefined || b === undefined || c === undefined) throw new Error('Expected three entries.')
    const verdicts = [
      { kind: 'ack', ...a },
      { kind: 'nack', ...b, delay: 0, count: 1 },
      { kind: 'dead', ...c, letter: ['data', 'x'] },
    ] as const
    expect(await group.settle(verdicts)).toEqual(['OK', 'OK', 'OK'])
    expect(await group.settle(verdicts)).toEqual(['GONE', 'OK', 'GONE'])
    expect(await world.length(`{${world.stream}}:dead`)).toBe(1)
    // Another consumer has the entry by now: the verdict, sent a third time, reports that.
    const other = await openGroup(world, 'other')
    const { entries } = await other.takeDue(10)
    expect(entries.map(({ id, deliveries }) => [id, deliveries])).toEqual([[b.id, 2]])
    expect((await other.takeDue(10)).entries).toEqual([])
    expect(await group.settle(verdicts.slice(1, 2))).toEqual(['LOST'])
    expect(await other.keep([b.id, c.id])).toEqual([c.id])
    expect(await group.keep([b.id])).toEqual([b.id])
    await other.giveBack([])
    await other.giveBack([])
    const again = await group.takeDue(10)
    expect(again.entries.map(({ id, deliveries }) => [id, deliveries])).toEqual([[b.id, 2]])
  })

  it('take no entries for an instance that has lost the lease of its shard', async () => {
    await using world = await openStreams(kind)
    await world.fill(numbered(5))
    const zombie = await openGroup(world, 'zombie')
    const owner = await openGroup(world, 'owner')
    const { port } = internalsOf(world.redis)
    const key = `{${world.stream}}:lease:billing`
    const late = new ShardLease(port, { key, token: 'late', duration: 60_000 })
    const lease = new ShardLease(port, { key, token: 'current', duration: 60_000 })
    expect(await late.acquire()).toBe(true)
    // Sent twice, as by a client that lost the answer.
    expect(await late.acquire()).toBe(true)
    await late.release()
    expect(await lease.acquire()).toBe(true)
    expect(await late.acquire()).toBe(false)
    expect(await late.renew()).toBe(false)
    await late.release()
    expect(await lease.renew()).toBe(true)

    const connection = await port.dedicate()
    const read = await zombie.read(connection, 2, 10)
    const range = { from: '-', to: '+', limit: 10, known: [] }
    expect(await zombie.takeRange(late, { ...range, known: read.map(({ id }) => id) })).toBe('LOST')
    const pages = [await owner.takeRange(lease, { ...range, limit: 1 }), await owner.takeRange(lease, range)]
    expect(pages).toMatchObject([
      { entries: [{ id: read[0]?.id, deliveries: 2 }], more: read[0]?.id },
      { entries: [{ deliveries: 3 }, { id: read[1]?.id, deliveries: 2 }], more: undefined },
    ])
    await connection.close()
  })

  it('remove consumers without pending entries, and no others, nor the caller [B15]', async () => {
    await using world = await openStreams(kind)
    await world.fill(numbered(3))
    const consumers = async () =>
      ((await world.command('XINFO', 'CONSUMERS', world.stream, 'billing')) as unknown[])
        .map((facts) => String(Array.isArray(facts) ? facts[1] : (facts as { name: unknown }).name))
        .sort()
    const me = await openGroup(world)
    const connection = await internalsOf(world.redis).port.dedicate()
    for (const name of ['holding', 'me']) await (await openGroup(world, name)).read(connection, 1, 10)
    const idle = await openGroup(world, 'idle')
    const [done] = await idle.read(connection, 1, 10)
    await idle.settle([{ kind: 'ack', id: done?.id ?? '', deliveries: 1 }])
    expect(await consumers()).toEqual(['holding', 'idle', 'me'])
    // No consumer has been idle for that long.
    await me.removeDeadConsumers(3_600_000)
    expect(await consumers()).toEqual(['holding', 'idle', 'me'])
    await me.removeDeadConsumers(0)
    expect(await consumers()).toEqual(['holding', 'me'])
    await me.removeConsumer()
    expect(await consumers()).toEqual(['holding', 'me'])
    expect(await world.pending()).toBe(2)
    await connection.close()
  })
})
