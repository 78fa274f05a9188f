import { isAckordError, type RawMessage } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { idsOf, next, numbered, open, openStreams, type StreamWorld, take, until } from './world.ts'

/** Reads entries as a consumer that does not run, and makes them look as if they had been pending for two minutes. */
async function readByTheDead(world: StreamWorld, count: number, consumer = 'dead-1'): Promise<string[]> {
  const { command, stream } = world
  await command('XGROUP', 'CREATE', stream, 'billing', '0', 'MKSTREAM').catch(() => {})
  await command('XREADGROUP', 'GROUP', 'billing', consumer, 'COUNT', String(count), 'STREAMS', stream, '>')
  const pending = (await command('XPENDING', stream, 'billing', '-', '+', '10000', consumer)) as [string][]
  const ids = pending.map(([id]) => id)
  await command('XCLAIM', stream, 'billing', consumer, '0', ...ids, 'IDLE', '120000', 'JUSTID')
  return ids
}

async function pendingList(world: StreamWorld): Promise<{ id: string; consumer: string; deliveries: number }[]> {
  const list = (await world.command('XPENDING', world.stream, 'billing', '-', '+', '10000')) as [string, string, number, number][]
  return list.map(([id, consumer, , deliveries]) => ({ id, consumer, deliveries }))
}

async function consumers(world: StreamWorld): Promise<string[]> {
  const list = (await world.command('XINFO', 'CONSUMERS', world.stream, 'billing')) as (unknown[] | Record<string, unknown>)[]
  return list.map((facts) => String(Array.isArray(facts) ? facts[1] : facts['name']))
}

describe('taking over', () => {
  it('yields entries that it takes over from a dead consumer, with their deliveries counted [B9]', async () => {
    await using world = await openStreams()
    await world.fill(['m0', 'm1', 'm2'])
    await readByTheDead(world, 2)
    const messages = await take(open(world.source()), 3)
    expect(idsOf(messages).sort()).toEqual(['m0', 'm1', 'm2'])
    expect(messages.map(({ id, deliveryCount }) => [id, deliveryCount]).sort()).toEqual([
      ['m0', 2],
      ['m1', 2],
      ['m2', 1],
    ])
    for (const message of messages) await message.ack()
    expect(await world.pending()).toBe(0)
  })

  it('never takes over entries of a live consumer, however long they are handled, nor its own [B10]', async () => {
    await using world = await openStreams()
    await world.fill(['slow'])
    // Longer than a busy machine may delay this process.
    const options = { claimIdle: 1000, claimInterval: 20, prefetch: 1 }
    const slow = open(world.source(options))
    const held = await next(slow)
    const [first] = await pendingList(world)
    const others = open(world.source(options))
    const start = await serverTime(world)
    for (let round = 0; (await serverTime(world)) < start + 2500; round += 1) {
      await world.fill([`m${round}`])
      const fresh = await next(others)
      expect([fresh.id, fresh.deliveryCount]).toEqual([`m${round}`, 1])
      const id = (await pendingList(world)).at(-1)?.id ?? ''
      await world.command('XCLAIM', world.stream, 'billing', 'dead-1', '0', id, 'IDLE', '120000', 'JUSTID')
      await expect(fresh.ack()).rejects.toThrow('taken over')
      // The message is delivered again, so the other source has searched for idle entries by now.
      const again = await next(others)
      expect([again.id, again.deliveryCount]).toEqual([`m${round}`, 2])
      await again.ack()
    }
    expect(await pendingList(world)).toEqual([{ id: first?.id, consumer: first?.consumer, deliveries: 1 }])
    expect(await held.ack()).toBe(true)
  })

  it('is not blocked by entries at the head of the pending list that always fail [B11]', async () => {
    await using world = await openStreams()
    const poison = numbered(600, 'p')
    await world.fill([...poison, 'good'])
    const ids = await readByTheDead(world, 601)
    // All entries but the last wait for a retry in the distant future.
    const retry = `{${world.stream}}:retry:billing`
    for (const id of ids.slice(0, -1)) await world.command('ZADD', retry, String(Date.now() + 3_600_000), id)
    const message = await next(open(world.source({ prefetch: 5 })))
    expect(message.id).toBe('good')
    await message.ack()
    expect(await world.pending()).toBe(600)
  })

  it('does not take over a nacked message before its delay has ended, and then any consumer gets it [B12]', async () => {
    await using world = await openStreams()
    await world.fill(['m'])
    const first = open(world.source({ claimIdle: 50, claimInterval: 20 }))
    await (await next(first)).nack(new Error('later'), { retryAfter: 3_600_000 })
    await first.return?.()
    const second = open(world.source({ claimIdle: 50, claimInterval: 20 }))
    const pulled = next(second)
    // The sentinel is pending for longer than claimIdle and is taken over; the nacked message is not.
    await world.fill(['sentinel'])
    const sentinel = await pulled
    expect(sentinel.id).toBe('sentinel')
    const [nacked] = await pendingList(world)
    expect(nacked?.consumer).toBe('ackord-waiting')
    await world.command('ZADD', `{${world.stream}}:retry:billing`, '1', nacked?.id ?? '')
    const again = await next(second)
    expect([again.id, again.deliveryCount]).toEqual(['m', 2])
    await again.ack()
    await sentinel.ack()
  })

  it('acks and reports entries that were trimmed while pending, in every way they are found [B13]', async () => {
    await using world = await openStreams()
    await world.fill(['m0', 'm1', 'm2', 'good'])
    const [dead, nacked] = await readByTheDead(world, 2)
    await world.command('ZADD', `{${world.stream}}:retry:billing`, '1', nacked ?? '')
    await world.command('XDEL', world.stream, dead ?? '', nacked ?? '')
    const messages = await take(open(world.source()), 2)
    expect(idsOf(messages)).toEqual(['m2', 'good'])
    for (const message of messages) await message.ack()
    await until(async () => (await world.pending()) === 0)
    const reported = world.logger.at('error').map(({ fields }) => (fields as { id: string }).id)
    expect(reported.sort()).toEqual([dead, nacked].sort())
  })

  it('removes dead consumers only when they have no pending entries [B15]', async () => {
    await using world = await openStreams()
    await world.fill(['m0', 'm1'])
    await readByTheDead(world, 1, 'holds-something')
    const holding = (await pendingList(world))[0]?.id ?? ''
    // Delays the entry, so that no consumer takes it over.
    await world.command('ZADD', `{${world.stream}}:retry:billing`, String(Date.now() + 3_600_000), holding)
    const source = world.source({ claimIdle: 50, claimInterval: 20 })
    const messages = open(source)
    const message = await next(messages)
    const names = await consumers(world)
    expect(names).toHaveLength(2)
    expect(names).toContain('holds-something')
    const own = names.find((name) => name !== 'holds-something') ?? ''
    expect(own).toMatch(new RegExp(`-${process.pid}-[0-9a-f]{12}$`))
    await message.ack()
    await source[Symbol.asyncDispose]()
    expect(await consumers(world)).toEqual(['holds-something'])
  })
})

describe('the group', () => {
  it('starts at the first entry, also if it is created later; or at the newest [B14]', async () => {
    await using world = await openStreams()
    await world.fill(['before'])
    expect((await next(open(world.source()))).id).toBe('before')
    const late = open(world.source({ group: 'shipping', from: 'newest' }))
    const pulled = next(late)
    await until(async () => JSON.stringify(await world.command('XINFO', 'GROUPS', world.stream)).includes('shipping'))
    await world.fill(['after'])
    expect((await pulled).id).toBe('after')
  })

  it('is created again after the stream was deleted, from the first entry on, and drops late verdicts [B14]', async () => {
    await using world = await openStreams()
    const messages = open(world.source({ from: 'newest' }))
    const pulled = next(messages)
    await until(async () => JSON.stringify(await world.command('XINFO', 'GROUPS', world.stream).catch(() => '')).includes('billing'))
    await world.fill(['lost'])
    const held = await pulled
    // In one transaction, so that the source cannot create the group before the stream has an entry to miss.
    await world.command('MULTI')
    await world.command('DEL', world.stream)
    await world.command('XADD', world.stream, '*', 'id', 'm0', 'data', '')
    await world.command('EXEC')
    await world.fill(['m1'])
    expect(idsOf(await take(messages, 2))).toEqual(['m0', 'm1'])
    expect(world.logger.at('warn').map(({ text }) => text)).toEqual([expect.stringContaining('The group is created again')])
    expect(await held.ack()).toBe(true)
  })

  it.each(['none', 'perKey'] as const)(
    'that is made again may have an entry under the id of one in hand: it is another one, in order %s',
    async (order) => {
      await using world = await openStreams()
      await world.fill(['lost'])
      const [[id = ''] = []] = (await world.command('XRANGE', world.stream, '-', '+')) as string[][]
      const messages = open(world.source({ order }))
      const held = await next(messages)
      await world.command('MULTI')
      await world.command('DEL', world.stream)
      await world.command('XADD', world.stream, id, 'id', 'm0', 'data', '')
      await world.command('EXEC')
      const other = await next(messages)
      expect([held.id, other.id]).toEqual(['lost', 'm0'])
      expect(await held.ack()).toBe(true)
      expect(await world.pending()).toBe(1)
      expect(await other.ack()).toBe(true)
      expect(await world.pending()).toBe(0)
    },
  )

  it('delivers every message to each group, and to one consumer of the group', async () => {
    await using world = await openStreams()
    const ids = numbered(30)
    await world.fill(ids)
    const shipping = await take(open(world.source({ group: 'shipping' })), 30)
    expect(idsOf(shipping)).toEqual(ids)
    const one = open(world.source({ prefetch: 10 }))
    const other = open(world.source({ prefetch: 20 }))
    const shared = [...(await take(one, 7)), ...(await take(other, 15))]
    expect(new Set(idsOf(shared)).size).toBe(22)
  })
})

describe('flow', () => {
  it.each(['none', 'perKey'] as const)('accepts durations with fractions of a millisecond, in order %s', async (order) => {
    await using world = await openStreams(undefined, { options: { deadline: 5000.5 } })
    await world.fill(['m0'])
    await readByTheDead(world, 1)
    await world.fill(['m1'])
    const messages = open(world.source({ order, block: 100.5, claimIdle: 1000.5, claimInterval: 20.5, lease: 20_000.5 }))
    expect(idsOf(await take(messages, 2)).sort()).toEqual(['m0', 'm1'])
  })

  it('holds no more than its prefetch, and continues as messages are settled', async () => {
    await using world = await openStreams()
    await world.fill(numbered(50))
    const messages = open(world.source({ prefetch: 8 }))
    const held: RawMessage[] = []
    for (let round = 0; round < 6; round += 1) {
      held.push(await next(messages))
      expect(await world.pending()).toBeLessThanOrEqual(8)
    }
    for (const message of held) await message.ack()
    const rest = await take(messages, 8)
    expect(await world.pending()).toBeLessThanOrEqual(8)
    for (const message of rest) await message.ack()
  })

  it('settles many messages in few round trips, each with its own answer', async () => {
    // A separate server, because the test counts the calls of all clients.
    await using server = await startRedis()
    await using world = await openStreams(undefined, { url: server.url })
    await world.fill(numbered(100))
    const all = await take(open(world.source({ prefetch: 200 })), 100)
    const [taken] = await pendingList(world)
    await world.command('XCLAIM', world.stream, 'billing', 'thief', '0', taken?.id ?? '')
    const before = await calls(world)
    const settled = await Promise.allSettled(all.map((message) => message.ack()))
    // Allows for calls that search for other entries in the meantime.
    expect((await calls(world)) - before).toBeLessThanOrEqual(20)
    expect(settled.filter(({ status }) => status === 'rejected')).toHaveLength(1)
    expect(await pendingList(world)).toEqual([{ id: taken?.id, consumer: 'thief', deliveries: 2 }])
  })

  it('rejects a verdict that comes too late, and changes nothing', async () => {
    await using world = await openStreams()
    await world.fill(['a', 'b', 'c'])
    const [ack, nack, reject] = await take(open(world.source()), 3)
    const ids = (await pendingList(world)).map(({ id }) => id)
    await world.command('XCLAIM', world.stream, 'billing', 'thief', '0', ...ids)
    for (const late of [ack?.ack(), nack?.nack(new Error('no')), reject?.reject(new Error('no'))]) {
      await expect(late).rejects.toSatisfy((error) => isAckordError(error, 'ACKORD_LEASE_LOST'))
    }
    expect((await pendingList(world)).map(({ consumer }) => consumer)).toEqual(['thief', 'thief', 'thief'])
    expect(await world.length(`{${world.stream}}:dead`)).toBe(0)
  })

  it('does not block the shared connection while it waits for entries [B19]', async () => {
    await using world = await openStreams()
    const messages = open(world.source({ block: 60_000 }))
    const pulled = next(messages)
    await until(async () => String(await world.command('CLIENT', 'LIST')).includes('cmd=xreadgroup'))
    // Published through the same client.
    await world.fill(['m'])
    expect((await pulled).id).toBe('m')
    const waiting = messages.next()
    await messages.return?.()
    expect((await waiting).done).toBe(true)
  })
})

describe('stopping', () => {
  it('releases entries at once that were not yielded, as if they had not been delivered', async () => {
    await using world = await openStreams()
    const ids = numbered(20)
    await world.fill(ids)
    const first = open(world.source())
    const held = await next(first)
    await first.return?.()
    const second = open(world.source({ claimIdle: 3_600_000 }))
    const others = await take(second, 19)
    expect(idsOf(others).sort()).toEqual(ids.slice(1).sort())
    expect(others.every(({ deliveryCount }) => deliveryCount === 1)).toBe(true)
    // Messages in flight can still be settled.
    expect(await held.ack()).toBe(true)
    for (const message of others) await message.ack()
    expect(await world.pending()).toBe(0)
  })

  it('releases yielded messages when the source is disposed, and rejects the late verdict', async () => {
    await using world = await openStreams()
    await world.fill(['m'])
    const source = world.source()
    const held = await next(open(source))
    await source[Symbol.asyncDispose]()
    const again = await next(open(world.source({ claimIdle: 3_600_000 })))
    expect(again.id).toBe('m')
    await expect(held.ack()).rejects.toSatisfy((error) => isAckordError(error, 'ACKORD_SHUTDOWN'))
    expect(await again.ack()).toBe(true)
  })

  it('ends without an error when it is aborted: before the start, while it waits, and twice', async () => {
    await using world = await openStreams()
    const source = world.source()
    expect((await open(source, AbortSignal.abort()).next()).done).toBe(true)
    const stop = new AbortController()
    const messages = open(source, stop.signal)
    const waiting = messages.next()
    stop.abort()
    expect((await waiting).done).toBe(true)
    await messages.return?.()
    await source[Symbol.asyncDispose]()
    await source[Symbol.asyncDispose]()
    expect((await open(source).next()).done).toBe(true)
  })
})

describe('entries that cannot be handled', () => {
  it('sends entries that cannot be read to the dead letter, whole and with the reason, and goes on', async () => {
    await using world = await openStreams()
    await world.command('XADD', world.stream, '*', 'n;number', 'many', 'data', 'x')
    await world.fill(['good'])
    const message = await next(open(world.source()))
    expect(message.id).toBe('good')
    await message.ack()
    await until(async () => (await world.pending()) === 0)
    const letter = await next(open(world.source({ stream: `{${world.stream}}:dead`, group: 'operators' })))
    expect(letter.attributes['deadlettercode']).toBe('ACKORD_INVALID_MESSAGE')
    expect(letter.attributes['deadletterreason']).toContain("the field 'n;number' is not a number")
    const fields: string[] = JSON.parse(Buffer.from(letter.data).toString())
    expect(fields.map((field) => Buffer.from(field, 'base64').toString())).toEqual(['n;number', 'many', 'data', 'x'])
  })

  it('reads entries of other writers with the option read, and rejects entries at which it throws', async () => {
    await using world = await openStreams()
    await world.command('XADD', world.stream, '*', 'kind', 'bad')
    await world.command('XADD', world.stream, '5000000000000-0', 'kind', 'placed', 'body', 'hello')
    const source = world.source({
      read({ id, fields }) {
        if (String(fields[1]) === 'bad') throw new Error('What is this?')
        return { data: fields[3] as Buffer, attributes: { id, type: String(fields[1]) } }
      },
    })
    const message = await next(open(source))
    expect([message.id, message.type, Buffer.from(message.data).toString()]).toEqual(['5000000000000-0', 'placed', 'hello'])
    await message.ack()
    await until(async () => (await world.length(`{${world.stream}}:dead`)) === 1)
  })

  it('dead-letters a message that was delivered too often to dead consumers, without yielding it [B11]', async () => {
    await using world = await openStreams()
    await world.fill(['killer', 'good'])
    const [id] = await readByTheDead(world, 1)
    await world.command('XCLAIM', world.stream, 'billing', 'dead-1', '0', id ?? '', 'IDLE', '120000', 'RETRYCOUNT', '3', 'JUSTID')
    const message = await next(open(world.source({ maxDeliveries: 3 })))
    expect(message.id).toBe('good')
    await message.ack()
    await until(async () => (await world.pending()) === 0)
    const letter = await next(open(world.source({ stream: `{${world.stream}}:dead`, group: 'operators' })))
    expect(letter.attributes).toMatchObject({ id: 'killer', deadlettercode: 'ACKORD_MAX_DELIVERIES', deadletterdeliveries: 4 })
  })

  it('keeps a rejected message if the key of the dead-letter stream has the wrong type, and delivers it again', async () => {
    await using world = await openStreams()
    await world.fill(['m'])
    await world.command('SET', `{${world.stream}}:dead`, 'text')
    const messages = open(world.source())
    const message = await next(messages)
    await expect(message.reject(new Error('never'))).rejects.toThrow('did not accept the verdict')
    expect(await world.pending()).toBe(1)
    await world.command('DEL', `{${world.stream}}:dead`)
    const again = await next(messages)
    expect([again.id, again.deliveryCount]).toEqual(['m', 2])
    expect(await again.reject(new Error('never'))).toBe(true)
    expect(await world.pending()).toBe(0)
  })

  it('sends rejected messages to another publisher, or discards them, as configured', async () => {
    await using world = await openStreams()
    await world.fill(['m', 'n'])
    const destination = `${world.stream}:7`
    const messages = open(world.source({ prefetch: 1, deadLetter: { publisher: world.publisher(), destination } }))
    const first = await next(messages)
    await first.reject(new Error('never'))
    await messages.return?.()
    expect(await world.length(destination)).toBe(1)
    const second = await next(open(world.source({ deadLetter: 'discard' })))
    await second.reject(new Error('never'))
    expect(await world.pending()).toBe(0)
    expect(await world.length(`{${world.stream}}:dead`)).toBe(0)
  })

  it('ends with an error if the key is not a stream', async () => {
    await using world = await openStreams()
    await world.command('SET', world.stream, 'text')
    await expect(next(open(world.source()))).rejects.toSatisfy((error) => isAckordError(error, 'ACKORD_SOURCE_FAILED'))
  })

  it('survives SCRIPT FLUSH at any time', async () => {
    await using world = await openStreams()
    const messages = open(world.source())
    for (const id of numbered(5)) {
      await world.command('SCRIPT', 'FLUSH')
      await world.fill([id])
      await world.command('SCRIPT', 'FLUSH')
      const message = await next(messages)
      await world.command('SCRIPT', 'FLUSH')
      await message.ack()
    }
    expect(await world.pending()).toBe(0)
  })
})

async function serverTime(world: StreamWorld): Promise<number> {
  const [seconds, microseconds] = (await world.command('TIME')) as [string, string]
  return Number(seconds) * 1000 + Number(microseconds) / 1000
}

async function calls(world: StreamWorld): Promise<number> {
  const text = String(await world.command('INFO', 'commandstats'))
  return ['evalsha', 'eval'].reduce((sum, name) => sum + Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(text)?.[1] ?? 0), 0)
}
