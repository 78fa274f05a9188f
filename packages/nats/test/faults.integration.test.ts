import { isAckordError, Message, type PublishResult } from '@ackord/core'
import { startFaultProxy } from '@ackord/testkit'
import { type BrokerWorld, runScenario, sourceScenarios } from '@ackord/testkit/suites'
import { connect } from '@nats-io/transport-node'
import { describe, expect, it } from 'vitest'
import { startNats } from '../../../scripts/servers/index.mjs'
import { type NatsSourceOptions, natsPublisher, natsSource } from '../src/index.ts'
import { event, natsUrl, never, numbered, open, openWorld, pull, pullMany, until, type World } from './support/world.ts'

describe('a connection that is cut', () => {
  it('while messages are consumed loses none of them', async () => {
    await using proxy = await startFaultProxy(natsUrl)
    await using world = await openWorld({ url: proxy.url })
    const stream = await world.stream()
    const ids = numbered(600)
    await world.fill(stream, ids)

    const seen = await consumeAll(world, stream, ids, (count) => {
      if (count % 150 === 75) proxy.cut()
    })

    expect(new Set(seen)).toEqual(new Set(ids))
    expect(world.logger.at('error')).toEqual([])
  })

  it('leaves messages to their handlers: the verdict waits for the connection, and nothing is delivered twice', async () => {
    await using proxy = await startFaultProxy(natsUrl)
    await using world = await openWorld({ url: proxy.url })
    const stream = await world.stream()
    await world.fill(stream, numbered(3))
    const messages = open(world.source(stream))
    const [acked, nacked] = await pullMany(messages, 2)

    proxy.refuse(true)
    proxy.cut()
    await until(() => world.connection.info === undefined)
    const verdicts = [acked?.ack(), nacked?.nack()]
    proxy.refuse(false)

    expect(await Promise.all(verdicts)).toEqual([true, true])
    const later = await pullMany(messages, 2)
    expect(later.map(({ id }) => id).sort()).toEqual(['m1', 'm2'])
    for (const message of later) await message.ack()
    await until(async () => (await world.manager.consumers.info(stream, 'billing')).num_ack_pending === 0)
  })

  it('while the source requests its consumer is not waited for: it requests it again as soon as the connection is back', async () => {
    await using proxy = await startFaultProxy(natsUrl)
    await using world = await openWorld({ url: proxy.url })
    const stream = await world.stream()
    await world.fill(stream, numbered(1))
    proxy.hold()
    const messages = open(world.source(stream))
    const pulling = pull(messages)
    await new Promise((resolve) => setImmediate(resolve))
    const cutAt = performance.now()
    proxy.cut()
    proxy.release()

    await (await pulling).ack()
    // The client would wait five seconds for the answer that was lost with the connection.
    expect(performance.now() - cutAt).toBeLessThan(4000)
  })

  it('is one line in the log when it goes and one when it is back', async () => {
    await using proxy = await startFaultProxy(natsUrl)
    await using world = await openWorld({ url: proxy.url })
    const stream = await world.stream()
    const next = pull(open(world.source(stream)))
    await until(async () => (await waiting(world, stream)) === 1)
    let refused = 0
    void (async () => {
      for await (const { type } of world.connection.status()) if (type === 'reconnecting') refused += 1
    })()

    proxy.refuse(true)
    proxy.cut()
    await until(() => refused >= 3)
    proxy.refuse(false)
    await world.fill(stream, ['a'])

    expect((await next).id).toBe('a')
    expect(world.logger.at('warn').map(({ text }) => text)).toEqual([
      'The consumer is not read: the connection was lost, or it is gone. It is tried again.',
    ])
    expect(world.logger.at('info').map(({ text }) => text)).toEqual(['The consumer is read again.'])
  })

  it('keeps the order of a key', async () => {
    await using proxy = await startFaultProxy(natsUrl)
    await using world = await openWorld({ url: proxy.url })
    const stream = await world.stream()
    const ids = numbered(60)
    await world.publisher().publish(
      stream,
      ids.map((id) => event(id, { partitionkey: 'one' })),
      { signal: never },
    )
    const declare = { consumer: { ackWait: 2000 } }

    const seen = await consumeAll(
      world,
      stream,
      ids,
      (count) => {
        if (count % 20 === 10) proxy.cut()
      },
      { order: 'perKey', declare },
    )

    // Messages in flight at a cut may be delivered once more; no message is delivered before its predecessor.
    expect([...new Set(seen)]).toEqual(ids)
    expect(seen.length).toBeLessThanOrEqual(ids.length + 3)
  })

  it('while an ordered source waits for messages that others are handling does not stop it', async () => {
    await using proxy = await startFaultProxy(natsUrl)
    await using world = await openWorld({ url: proxy.url })
    const stream = await world.stream()
    await world.fill(stream, ['a'])
    await world.manager.consumers.add(stream, { durable_name: 'billing', ack_policy: 'explicit', max_ack_pending: 10 })
    const ask = { timeout: 5000, noMux: true, reply: `taker.${stream}` }
    const taken = await world.admin.request(`$JS.API.CONSUMER.MSG.NEXT.${stream}.billing`, '1', ask)
    let looks = 0
    const onLook = () => {
      looks += 1
    }
    world.admin.subscribe(`$JS.API.CONSUMER.INFO.${stream}.billing`, { callback: onLook })
    const next = pull(open(world.source(stream, { order: 'perKey', declare: undefined })))
    // By then the pauses between its requests are longer than a reconnect takes.
    await until(() => looks >= 8)

    proxy.cut()
    await until(() => world.logger.at('warn').length === 1)
    taken.respond('-NAK')

    expect((await next).id).toBe('a')
  })

  it('keeps a key taken while its message is being handled: the next one comes after the verdict', async () => {
    await using proxy = await startFaultProxy(natsUrl)
    await using world = await openWorld({ url: proxy.url })
    const stream = await world.stream()
    await world.fill(stream, ['a', 'b'])
    await world.fill(`${stream}.other`, ['c'])
    const messages = open(world.source(stream, { order: 'perSubject' }))
    const [inHand, other] = await pullMany(messages, 2)
    await other?.ack()

    proxy.cut()
    await until(() => world.logger.at('info').some(({ text }) => text === 'The consumer is read again.'))
    await world.fill(`${stream}.other`, ['d'])
    const later = await pull(messages)
    await inHand?.ack()

    expect([inHand?.id, other?.id, later.id, (await pull(messages)).id]).toEqual(['a', 'c', 'd', 'b'])
  })

  it('while messages are published loses none that was confirmed, and JetStream drops the repeats', async () => {
    await using proxy = await startFaultProxy(natsUrl)
    await using world = await openWorld({ url: proxy.url })
    const stream = await world.stream()
    const publisher = world.publisher()
    const open = new Set(numbered(1000))
    let calls = 0
    let failures = 0

    while (open.size > 0) {
      const batch = [...open].slice(0, 100)
      calls += 1
      const publishing = publisher.publish(
        stream,
        batch.map((id) => event(id)),
        { signal: never },
      )
      if (calls % 3 === 2 && failures < 300) proxy.cut()
      const results: readonly PublishResult[] = await publishing
      for (const [index, result] of results.entries()) {
        if (result.ok) open.delete(batch[index] ?? '')
        else failures += 1
        if (!result.ok) expect(result).toMatchObject({ scope: 'destination', error: { code: 'ACKORD_PUBLISH_FAILED' } })
      }
    }

    expect(failures).toBeGreaterThan(0)
    expect((await world.manager.streams.info(stream)).state.messages).toBe(1000)
  })
})

describe('a server', () => {
  it.each(['none', 'perKey'] as const)(
    'that is restarted at a third and at a half of a run loses nothing, with order %s',
    async (order) => {
      await using server = await startNats()
      const scenario = sourceScenarios({ restart: true }).find(({ name }) => name.includes('is restarted'))
      if (scenario === undefined) throw new Error('no such scenario')
      const openBroker = async (): Promise<BrokerWorld> => {
        const world = await openWorld({ server: server.url })
        return {
          async topic() {
            const stream = await world.stream()
            const declare = { consumer: { ackWait: 2000 } }
            return { destination: stream, source: ({ prefetch } = {}) => world.source(stream, { prefetch, order, declare }) }
          },
          publisher: () => world.publisher(),
          restart: () => server.restart(),
          [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
        }
      }

      const { result, error } = await runScenario(scenario, openBroker)

      expect(error).toBeUndefined()
      expect(result).toBe('passed')
    },
  )

  it('that is killed loses nothing', async () => {
    await using server = await startNats()
    await using world = await openWorld({ server: server.url })
    const stream = await world.stream()
    const ids = numbered(300)
    await world.fill(stream, ids)

    const seen = await consumeAll(
      world,
      stream,
      ids,
      async (count) => {
        if (count !== 100) return
        await server.kill()
        await server.restart()
      },
      { declare: { consumer: { ackWait: 2000 } } },
    )

    expect(new Set(seen)).toEqual(new Set(ids))
  })

  it('that is down is waited for, until the signal ends the iteration; a publisher blames the destination', async () => {
    await using server = await startNats()
    await using world = await openWorld({ server: server.url })
    const stream = await world.stream()
    const stop = new AbortController()
    await server.kill()
    await until(() => world.connection.info === undefined)

    const next = open(world.source(stream), stop.signal).next()
    const results = await world.publisher({ timeout: 50 }).publish(stream, [event('a')], { signal: never })
    stop.abort()

    expect(await next).toEqual({ done: true, value: undefined })
    expect(results).toMatchObject([{ ok: false, scope: 'destination', error: { message: 'There is no connection to NATS.' } }])
    await server.restart()
  })

  it('that does not answer in time has confirmed nothing', async () => {
    await using proxy = await startFaultProxy(natsUrl)
    await using world = await openWorld({ url: proxy.url })
    const stream = await world.stream()

    proxy.hold()
    const results = await world.publisher({ timeout: 100 }).publish(stream, [event('a')], { signal: never })

    expect(results).toMatchObject([{ ok: false, scope: 'destination', error: { message: expect.stringContaining('did not confirm') } }])
    expect(results[0]).not.toHaveProperty('permanent')
    proxy.release()
  })
})

describe('a connection', () => {
  it('that was closed by its owner ends the iteration with an error, and publishing says so', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    const connection = await connect({ servers: natsUrl })
    const source = natsSource(connection, { stream, consumer: 'billing', declare: {}, logger: world.logger })
    const publisher = natsPublisher(connection)
    const next = open(source).next()
    await until(async () => (await waiting(world, stream)) === 1)

    await connection.close()

    await expect(next).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', message: expect.stringContaining('maxReconnectAttempts: -1') })
    expect(await publisher.publish(stream, [event('a')], { signal: never })).toMatchObject([
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('will not be restored') } },
    ])
    await source[Symbol.asyncDispose]()
  })

  it('that the client has given up ends the iteration with an error, and verdicts are refused', async () => {
    await using proxy = await startFaultProxy(natsUrl)
    await using world = await openWorld()
    const stream = await world.stream()
    await world.fill(stream, ['a'])
    const connection = await connect({ servers: proxy.url, maxReconnectAttempts: 2, reconnectTimeWait: 10 })
    const messages = open(natsSource(connection, { stream, consumer: 'billing', declare: {}, logger: world.logger }))
    const inHand = await pull(messages)

    proxy.refuse(true)
    proxy.cut()

    await expect(messages.next()).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED' })
    await expect(inHand.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
  })
})

it('a message over the limit of the server fails for good, one over that of the stream too, and the others are sent', async () => {
  await using world = await openWorld()
  const stream = await world.stream({ max_msg_size: 1000 })
  const large = (bytes: number) => new Message(new Uint8Array(bytes), { id: `${bytes}` })

  const results = await world.publisher().publish(stream, [event('a'), large(1_048_577), large(2000), event('b')], { signal: never })

  expect(results).toMatchObject([{ ok: true }, { ok: false, permanent: true }, { ok: false, permanent: true }, { ok: true }])
  expect(results[1]).toMatchObject({ error: { retryable: false, message: expect.stringContaining('max_payload is 1048576') } })
  expect(results[2]).toMatchObject({ error: { retryable: false, message: expect.stringContaining('max_msg_size') } })
})

/** Handles every delivery until each id was acked. Resolves to the ids in order of arrival. */
async function consumeAll(
  world: World,
  stream: string,
  ids: readonly string[],
  onMessage: (count: number) => void | Promise<void>,
  options: Partial<NatsSourceOptions> = { declare: { consumer: { ackWait: 2000 } } },
): Promise<string[]> {
  const seen: string[] = []
  const unacked = new Set(ids)
  const stop = new AbortController()
  const source = world.source(stream, { prefetch: 20, ...options })
  const consuming = (async () => {
    for await (const message of source.messages({ signal: stop.signal })) {
      seen.push(String(message.id))
      await onMessage(seen.length)
      try {
        await message.ack()
        unacked.delete(String(message.id))
      } catch (error) {
        if (!isAckordError(error, 'ACKORD_LEASE_LOST')) throw error
      }
    }
  })()
  await Promise.race([until(() => unacked.size === 0), consuming])
  stop.abort()
  await consuming
  await source[Symbol.asyncDispose]()
  return seen
}

async function waiting(world: World, stream: string): Promise<number> {
  try {
    return (await world.manager.consumers.info(stream, 'billing')).num_waiting
  } catch {
    return 0
  }
}
