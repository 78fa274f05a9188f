import { type BrokerAddress, publishAll } from '@ackord/core'
import { Redis as Ioredis } from 'ioredis'
import { createClient } from 'redis'
import { describe, expect, it } from 'vitest'
import { fromIoredis, fromNodeRedis, type Redis } from '../../src/index.ts'
import { streamPublisher, streamSource } from '../../src/streams/index.ts'
import { redisKinds, redisUrl } from '../support/redis-clients.ts'
import { event, next, open, openStreams } from './world.ts'

const trace = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  tracestate: 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
  baggage: 'user=alice,tier=gold;ttl=5',
}

describe('the trace of a message', () => {
  it('is in fields for readers that do not use Ackord', async () => {
    await using world = await openStreams()
    await publishAll(world.publisher(), world.stream, [event('traced', trace), event('untraced')])

    const entries = (await world.command('XRANGE', world.stream, '-', '+')) as [string, string[]][]

    const [traced, untraced] = entries.map(([, fields]) => Object.fromEntries(pairs(fields)))
    expect(traced).toMatchObject(trace)
    expect(Object.keys(untraced ?? {}).filter((name) => /trace|baggage/.test(name))).toEqual([])
  })

  it.each([
    ['without data', ['orderId', '7']],
    ['in the format of the publisher', ['id', 'a', 'data', '{}']],
  ])('is read from the fields of entries of other writers: %s', async (_kind, fields) => {
    await using world = await openStreams()
    await world.command('XADD', world.stream, '*', ...fields, ...Object.entries(trace).flat())

    const message = await next(open(world.source()))

    expect(message.attributes).toMatchObject(trace)
  })
})

describe('the server', () => {
  const { hostname, port } = new URL(redisUrl)

  it.each(redisKinds)('is the one that the client has, and unknown on a cluster: $name', async (kind) => {
    await using world = await openStreams(kind)
    const expected = kind.cluster ? ['redis', undefined, undefined] : ['redis', hostname, Number(port)]

    expect(addressOf(world.publisher())).toEqual(expected)
    expect(addressOf(world.source())).toEqual(expected)
  })

  it.each<[string, Redis, unknown[]]>([
    ['ioredis by URL', ioredis('rediss://app:secret@cache:7000/1'), ['redis', 'cache', 7000]],
    ['ioredis by default', ioredis(), ['redis', 'localhost', 6379]],
    ['ioredis with sentinels', ioredis({ sentinels: [{ host: 'sentinel', port: 26_379 }], name: 'main' }), ['redis', undefined, undefined]],
    ['ioredis with a path', ioredis({ path: '/run/redis.sock' }), ['redis', undefined, undefined]],
    ['node-redis by URL', fromNodeRedis(createClient({ url: 'rediss://app:secret@cache:7000/1' })), ['redis', 'cache', 7000]],
    ['node-redis by default', fromNodeRedis(createClient()), ['redis', 'localhost', 6379]],
    [
      'node-redis with a path',
      fromNodeRedis(createClient({ socket: { path: '/run/redis.sock', tls: false } })),
      ['redis', undefined, undefined],
    ],
  ])('is known before the client has connected, without the password: %s', (_name, redis, expected) => {
    expect(addressOf(streamPublisher(redis))).toEqual(expected)
    expect(addressOf(streamSource(redis, { stream: 'orders', group: 'billing' }))).toEqual(expected)
  })
})

function ioredis(options: string | object = {}): Redis {
  return fromIoredis(
    typeof options === 'string' ? new Ioredis(options, { lazyConnect: true }) : new Ioredis({ ...options, lazyConnect: true }),
  )
}

function addressOf({ system, serverAddress, serverPort }: BrokerAddress) {
  return [system, serverAddress, serverPort]
}

function pairs(fields: readonly string[]): [string, string][] {
  return Array.from({ length: fields.length / 2 }, (_, index) => [String(fields[2 * index]), String(fields[2 * index + 1])])
}
