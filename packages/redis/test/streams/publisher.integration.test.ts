import { isAckordError, Message, type PublishFailure, type PublishResult, publishAll, type RawMessage } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { addEntries } from '../../src/streams/stream-publisher.ts'
import { internalsOf } from '../../src/transaction/redis.ts'
import { redisKinds } from '../support/redis-clients.ts'
import { event, idsOf, never, numbered, open, openStreams, type StreamWorld, take } from './world.ts'

function failureOf(result: PublishResult | undefined): PublishFailure {
  if (result === undefined || result.ok) throw new Error('Expected a failed result.')
  return result
}

async function idsIn(world: StreamWorld, stream: string): Promise<string[]> {
  const entries = (await world.command('XRANGE', stream, '-', '+')) as [string, string[]][]
  return entries.map(([, fields]) => fields[fields.indexOf('id') + 1] ?? '')
}

describe.each(redisKinds)('publishing on $name', (kind) => {
  it('returns a result for each message in order, and reports which ones failed', async () => {
    await using world = await openStreams(kind)
    const { stream } = world
    await world.command('SET', `${stream}:5`, 'text')
    const publisher = world.publisher({ stream: (_, { type }) => (type === 'bad' ? `${stream}:5` : stream) })
    const messages: RawMessage[] = [
      event('m0'),
      event('m1', { type: 'bad' }),
      new Message('text' as never, { id: 'm2' }),
      new Message(new Uint8Array(), { id: 'm3', wrong: Number.NaN }),
      event('m4'),
    ]
    const results = await publisher.publish(stream, messages, { signal: never })
    expect(results.map(({ ok }) => ok)).toEqual([true, false, false, false, true])
    const [wrongType, wrongData, wrongAttribute] = [results[1], results[2], results[3]].map(failureOf)
    expect(wrongType).toMatchObject({ permanent: true, scope: 'destination', error: { retryable: false } })
    expect(isAckordError(wrongData?.error, 'ACKORD_WRONG_DATA')).toBe(true)
    expect(wrongAttribute).toMatchObject({ permanent: true, error: { retryable: false } })
    expect(await idsIn(world, stream)).toEqual(['m0', 'm4'])
  })

  it('keeps the order of each key within a batch, over shards and chunks [B20]', async () => {
    await using world = await openStreams(kind)
    const keys = ['a', 'b', 'c']
    const messages = numbered(1300).map((id, index) => event(id, { partitionkey: keys[index % 3] }))
    await publishAll(world.publisher({ shards: 2 }), world.stream, messages)
    const streams = await Promise.all([0, 1].map((index) => idsIn(world, `${world.stream}:${index}`)))
    expect(streams.flat()).toHaveLength(1300)
    for (const key of keys) {
      const expected = idsOf(messages.filter(({ partitionKey }) => partitionKey === key))
      const found = streams.map((ids) => ids.filter((id) => expected.includes(id))).filter((ids) => ids.length > 0)
      expect(found).toEqual([expected])
    }
  })
})

describe('publishing', () => {
  it('takes one round trip for a batch, and never trims', async () => {
    await using server = await startRedis()
    await using world = await openStreams(undefined, { url: server.url })
    await world.fill(['known'])
    const calls = async () => {
      const text = String(await world.command('INFO', 'commandstats'))
      return ['eval', 'evalsha'].reduce((sum, name) => sum + Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(text)?.[1] ?? 0), 0)
    }
    const before = await calls()
    await world.fill(numbered(500))
    expect((await calls()) - before).toBe(1)
    expect(await world.length()).toBe(501)
  })

  it('does not add messages behind one of their key that was not added [B20]', async () => {
    await using world = await openStreams()
    const entry = (key: string | undefined, ...fields: string[]) => ({ key, fields, size: 1 })
    const entries = [
      entry('a', 'id', 'a1'),
      // A field without a value: the server refuses this entry.
      entry('a', 'id'),
      entry('b', 'id', 'b1'),
      entry('a', 'id', 'a3'),
      entry(undefined, 'id'),
      entry(undefined, 'id', 'x'),
    ]
    const results = await addEntries(internalsOf(world.redis).port, world.stream, entries)
    expect(results.map(({ ok }) => ok)).toEqual([true, false, true, false, false, true])
    expect(String(failureOf(results[3]).error)).toContain('An earlier message with the same partitionkey')
    expect(await idsIn(world, world.stream)).toEqual(['a1', 'b1', 'x'])
  })

  it('rejects a message that is too large permanently, and sends the others', async () => {
    await using world = await openStreams()
    const large = new Message(new Uint8Array(2000), { id: 'large' })
    const results = await world.publisher({ maxSize: 1000 }).publish(world.stream, [event('a'), large, event('b')], { signal: never })
    expect(results.map(({ ok }) => ok)).toEqual([true, false, true])
    expect(failureOf(results[1])).toMatchObject({ permanent: true, error: { retryable: false } })
  })

  it('rejects a message for which stream() returns no name', async () => {
    await using world = await openStreams()
    const names: Record<string, string> = { empty: '', torn: 'a\ud800' }
    const publisher = world.publisher({ stream: (destination, { id = '' }) => (id === 'good' ? destination : (names[id] as string)) })
    const messages = ['empty', 'good', 'missing', 'torn'].map((id) => event(id))
    const results = await publisher.publish(world.stream, messages, { signal: never })
    expect(results.map((result) => (result.ok ? 'ok' : String((result.error as Error).cause)))).toEqual([
      'InvalidOptionError: The result of stream() must be a non-empty string; it is "".',
      'ok',
      'InvalidOptionError: The result of stream() must be a non-empty string; it is undefined.',
      'InvalidOptionError: The result of stream() must be well-formed Unicode.',
    ])
    expect(await idsIn(world, world.stream)).toEqual(['good'])
  })

  it('reports a server that is out of memory as a temporary failure of the destination [B18]', async () => {
    await using server = await startRedis()
    await using world = await openStreams(undefined, { url: server.url })
    await world.fill(['before', 'nacked'])
    const messages = open(world.source())
    const [acked, nacked] = await take(messages, 2)
    await world.command('CONFIG', 'SET', 'maxmemory', '1')
    const results = await world.publisher().publish(world.stream, [event('a'), event('b')], { signal: never })
    for (const result of results) {
      expect(failureOf(result)).toMatchObject({ scope: 'destination', error: { retryable: true } })
      expect(String(failureOf(result).error)).toContain('out of memory')
    }
    // Messages that were delivered before can still be settled.
    expect(await acked?.ack()).toBe(true)
    expect(await nacked?.nack(new Error('not now'))).toBe(true)
    expect(idsOf(await take(messages, 1))).toEqual(['nacked'])
    await world.command('CONFIG', 'SET', 'maxmemory', '0')
    await publishAll(world.publisher(), world.stream, [event('a')])
    expect(await idsIn(world, world.stream)).toEqual(['before', 'nacked', 'a'])
  })

  it('reports a server that is a replica, and one without the replicas that it requires', async () => {
    await using server = await startRedis()
    await using world = await openStreams(undefined, { url: server.url })
    await world.fill(['before'])
    await world.command('CONFIG', 'SET', 'min-replicas-to-write', '1')
    const [unsafe] = await world.publisher().publish(world.stream, [event('a')], { signal: never })
    expect(failureOf(unsafe)).toMatchObject({ scope: 'destination', error: { retryable: true } })
    expect(String(failureOf(unsafe).error)).toContain('replicas')
    await world.command('CONFIG', 'SET', 'min-replicas-to-write', '0')
    await world.command('REPLICAOF', '127.0.0.1', '1')
    const [readOnly] = await world.publisher().publish(world.stream, [event('a')], { signal: never })
    expect(failureOf(readOnly)).toMatchObject({ scope: 'destination', error: { retryable: true } })
    await world.command('REPLICAOF', 'NO', 'ONE')
    expect(await world.length()).toBe(1)
  })

  it('reports a missing answer and an abort as failures of the destination', async () => {
    await using server = await startRedis()
    await using world = await openStreams(undefined, { url: server.url, options: { deadline: 300 } })
    await world.fill(['before'])
    await world.command('CLIENT', 'PAUSE', '800')
    const [late] = await world.publisher().publish(world.stream, [event('a')], { signal: never })
    expect(failureOf(late)).toMatchObject({ scope: 'destination', error: { retryable: true } })
    expect(isAckordError((failureOf(late).error as Error).cause, 'ACKORD_REDIS_UNANSWERED')).toBe(true)
    const [aborted] = await world.publisher().publish(world.stream, [event('b')], { signal: AbortSignal.timeout(50) })
    expect(failureOf(aborted)).toMatchObject({ scope: 'destination', error: { retryable: true } })
    await world.command('CLIENT', 'UNPAUSE')
  })

  it('rejects when it is closed', async () => {
    await using world = await openStreams()
    const publisher = world.publisher()
    await publisher[Symbol.asyncDispose]()
    await expect(publisher.publish(world.stream, [event('a')], { signal: never })).rejects.toThrow('closed')
  })
})
