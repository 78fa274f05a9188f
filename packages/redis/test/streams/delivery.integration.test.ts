import { Message, publishAll } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { redisKinds } from '../support/redis-clients.ts'
import { event, idsOf, next, numbered, open, openStreams, take, until } from './world.ts'

describe.each(redisKinds)('streams on $name', (kind) => {
  it('delivers messages that were published before and after the first read, once each, with the same bytes and attributes', async () => {
    await using world = await openStreams(kind)
    const data = Uint8Array.from({ length: 256 }, (_, byte) => byte)
    const attributes = {
      id: 'a {b}: c',
      type: 'order.placed',
      source: '/größe/☃',
      time: '2026-01-02T03:04:05.678Z',
      attempt: 3,
      ratio: -0.25,
      big: 9007199254740991,
      urgent: true,
      digest: Uint8Array.from([0, 255, 10, 13]),
      'odd;number': 'text',
      empty: '',
    }
    const publisher = world.publisher()
    await publishAll(publisher, world.stream, [new Message(data, attributes)])
    const messages = open(world.source())
    const first = await next(messages)
    await publishAll(publisher, world.stream, [event('later')])
    const second = await next(messages)

    expect(first.data).toEqual(data)
    expect(first.attributes).toEqual(attributes)
    expect(first.deliveryCount).toBe(1)
    expect(second.id).toBe('later')
    await first.ack()
    await second.ack()
    expect(await world.pending()).toBe(0)
    expect(await world.length()).toBe(2)
  })

  it('delivers 1 MB and empty messages, also with a key prefix', async () => {
    await using world = await openStreams(kind, { keyPrefix: 'svc:' })
    const large = new Uint8Array(1024 * 1024).fill(7)
    await publishAll(world.publisher(), world.stream, [new Message(large, { id: 'large' }), new Message(new Uint8Array(), { id: 'none' })])
    const [first, second] = await take(open(world.source()), 2)
    expect(Buffer.compare(first?.data as Uint8Array, large)).toBe(0)
    expect(second?.data).toHaveLength(0)
    await first?.reject(new Error('too much'))
    await second?.nack(new Error('not now'))
    expect(await world.command('XLEN', `svc:{svc:${world.stream}}:dead`)).toBe(1)
  })

  it('delivers a nacked message again, soon or after its delay, counts its deliveries, and dead-letters a rejected one in one step [B12]', async () => {
    await using world = await openStreams(kind)
    await world.fill(['m'])
    const messages = open(world.source())
    const first = await next(messages)
    expect(await first.nack(new Error('not now'))).toBe(true)
    const second = await next(messages)
    expect([second.id, second.deliveryCount]).toEqual(['m', 2])
    await second.nack(new Error('not now'), { retryAfter: 60_000 })
    const retry = `{${world.stream}}:retry:billing`
    const [id] = (await world.command('ZRANGE', retry, '0', '-1')) as [string]
    const due = await world.command('ZSCORE', retry, id)
    const entryTime = Number(id.split('-')[0])
    expect(Number(due)).toBeGreaterThanOrEqual(entryTime + 60_000)
    // Makes the retry due now.
    await world.command('ZADD', retry, String(entryTime), id)
    const third = await next(messages)
    expect(third.deliveryCount).toBe(3)
    await third.reject(new Error('never'))

    expect(await world.pending()).toBe(0)
    const dead = open(world.source({ stream: `{${world.stream}}:dead`, group: 'operators' }))
    const letter = await next(dead)
    expect(letter.attributes).toMatchObject({
      id: 'm',
      type: 'test.event',
      deadletterreason: 'never',
      deadletterstream: world.stream,
      deadlettergroup: 'billing',
      deadletterdeliveries: 3,
    })
    await letter.ack()
  })

  it('spreads sharded streams over the slots, and two sources of a group share them', async () => {
    await using world = await openStreams(kind)
    const ids = numbered(40)
    const publisher = world.publisher({ shards: 4 })
    await publishAll(
      publisher,
      world.stream,
      ids.map((id) => event(id)),
    )
    const received: (string | undefined)[] = []
    const stop = new AbortController()
    const consume = async () => {
      for await (const message of world.source({ shards: 4, prefetch: 8 }).messages({ signal: stop.signal })) {
        received.push(message.id)
        await message.ack()
      }
    }
    const consumers = [consume(), consume()]
    await until(() => received.length >= ids.length)
    stop.abort()
    await Promise.all(consumers)
    expect(received.sort()).toEqual([...ids].sort())
  })

  it('keeps the order of each key over shards, two instances and nacks [B20]', async () => {
    await using world = await openStreams(kind)
    const keys = ['a', 'b', 'c', 'd', 'e']
    const messages = numbered(60).map((id, index) => event(id, { partitionkey: keys[index % keys.length] }))
    await publishAll(world.publisher({ shards: 3 }), world.stream, messages)
    const handled = new Map<string, (string | undefined)[]>(keys.map((key) => [key, []]))
    let count = 0
    const nacked = new Set<string | undefined>()
    const stop = new AbortController()
    const consume = async () => {
      const source = world.source({ shards: 3, order: 'perKey', block: 100 }, await world.another())
      for await (const message of source.messages({ signal: stop.signal })) {
        if (Number(message.id?.slice(1)) % 7 === 0 && !nacked.has(message.id)) {
          nacked.add(message.id)
          void message.nack(new Error('not now'), { retryAfter: 5 })
          continue
        }
        handled.get(message.partitionKey ?? '')?.push(message.id)
        count += 1
        void message.ack()
      }
    }
    const consumers = [consume(), consume()]
    await until(() => count >= 60)
    stop.abort()
    await Promise.all(consumers)
    for (const [key, ids] of handled) expect(ids).toEqual(idsOf(messages.filter(({ partitionKey }) => partitionKey === key)))
  })
})

describe('an entry whose attributes cannot be written again', () => {
  const entries: [name: string, fields: string[]][] = [
    ['has a time that is none', ['id', 'm', 'type', 'order.placed', 'source', '/test', 'time', 'yesterday', 'data', 'x']],
    ['has more attributes than a script can pass on', ['id', 'm', ...numbered(4000, 'a').flatMap((name) => [name, '1']), 'data', 'x']],
  ]

  it.each((['none', 'perKey'] as const).flatMap((order) => entries.map(([name, fields]) => ({ order, name, fields }))))(
    'is dead-lettered whole in an envelope: it $name, order $order',
    async ({ order, fields }) => {
      await using world = await openStreams()
      await world.command('XADD', world.stream, '*', ...fields)
      await world.fill(['next'])
      const messages = open(world.source({ order }))
      const first = await next(messages)
      expect(first.id).toBe('m')
      await first.reject(new Error('never'))
      const second = await next(messages)
      expect(second.id).toBe('next')
      await second.ack()
      expect(await world.pending()).toBe(0)

      const letter = await next(open(world.source({ stream: `{${world.stream}}:dead`, group: 'operators' })))
      expect(letter.attributes).toMatchObject({ id: 'm', type: 'ackord.deadletter', deadletterform: 'envelope' })
      const { reason, attributes, data_base64 } = JSON.parse(Buffer.from(letter.data).toString()) as Record<string, unknown>
      expect(reason).toBe('never')
      expect(Buffer.from(String(data_base64), 'base64').toString()).toBe('x')
      const names = (attributes as { name: string }[]).map(({ name }) => name)
      expect(names).toEqual(expect.arrayContaining([fields.at(-4), 'deadletterstream', 'deadletterentry']))
      expect(world.logger.at('error')).toEqual([])
      await letter.ack()
    },
  )
})
