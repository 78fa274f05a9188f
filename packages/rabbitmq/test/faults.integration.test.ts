import { isAckordError, Message, type PublishResult } from '@ackord/core'
import { startFaultProxy } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { startRabbitmq } from '../../../scripts/servers/index.mjs'
import { event, events, never, open, openWorld, pull, pullMany, rabbitmqUrl, until, type World } from './support/world.ts'

const quick = () => 5

describe('a connection that is cut', () => {
  it('while messages are consumed loses none of them', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    const ids = events(600)
    await world.fill(queue, ids)

    const seen = await consumeAll(world, queue, ids, (count) => {
      if (count % 150 === 75) proxy.cut()
    })

    expect(new Set(seen)).toEqual(new Set(ids))
    expect(world.logger.at('error')).toEqual([])
  }, 60_000)

  it('refuses verdicts on messages that were being handled, which are delivered again', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue({ type: 'quorum' })
    await world.fill(queue, events(5))
    const messages = open(world.source(queue, { backoff: quick }))
    const [acked, ...inHand] = await pullMany(messages, 4)
    await acked?.ack()
    // RabbitMQ reads a connection in order: once it has answered a later request, it has processed the ack.
    await roundTrip(world, queue)
    const lost = new Promise((resolve) => world.connection.once('disconnect', resolve))

    proxy.cut()
    await lost
    const verdicts = await Promise.allSettled([inHand[0]?.ack(), inHand[1]?.nack(), inHand[2]?.nack(undefined, { retryAfter: 1000 })])
    const again = await pullMany(messages, 4)

    for (const verdict of verdicts) expect(verdict).toMatchObject({ status: 'rejected', reason: { code: 'ACKORD_LEASE_LOST' } })
    expect(again.map(({ id }) => id).sort()).toEqual(['m1', 'm2', 'm3', 'm4'])
    expect(again.find(({ id }) => id === 'm1')?.deliveryCount).toBe(2)
    for (const message of again) expect(await message.ack()).toBe(true)
  })

  it('is one line in the log when it goes and one when it is back', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    const messages = open(world.source(queue, { backoff: quick }))
    const next = pull(messages)
    await until(async () => (await world.admin.checkQueue(queue)).consumerCount === 1)
    let refused = 0
    world.connection.on('connect-failed', () => {
      refused += 1
    })

    proxy.refuse(true)
    proxy.cut()
    await until(() => refused === 3)
    proxy.refuse(false)
    await world.fill(queue, ['a'])

    expect((await next).id).toBe('a')
    await until(() => world.logger.at('info').length === 1)
    expect(world.logger.at('warn').map(({ text }) => text)).toEqual([
      'The connection to RabbitMQ failed.',
      'The queue is not consumed: the channel to RabbitMQ was lost. It is opened again.',
    ])
  })

  it('while messages are published loses none that was confirmed, and duplicates have the same id', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    const publisher = world.publisher()
    let calls = 0
    let failures = 0
    const waiting = new Set(events(2000))

    while (waiting.size > 0) {
      const batch = [...waiting].slice(0, 100)
      calls += 1
      const publishing = publisher.publish(queue, batch.map(event), { signal: never })
      if (calls % 5 === 2 && failures < 800) proxy.cut()
      const results: readonly PublishResult[] = await publishing
      for (const [index, result] of results.entries()) {
        if (result.ok) waiting.delete(batch[index] ?? '')
        else failures += 1
        if (!result.ok) expect(result).toMatchObject({ scope: 'destination', error: { code: 'ACKORD_PUBLISH_FAILED' } })
      }
    }
    const arrived = await drain(world, queue)

    expect(failures).toBeGreaterThan(0)
    expect(new Set(arrived)).toEqual(new Set(events(2000)))
    expect(arrived.length).toBeLessThanOrEqual(2000 + failures)
  }, 60_000)
})

describe('a channel that is closed by the server', () => {
  it('is opened again, and the connection stays', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    await world.fill(queue, ['a'])
    const messages = open(world.source(queue, { backoff: quick }))
    const first = await pull(messages)

    world.breakChannels()
    const again = await pull(messages)

    expect(again.id).toBe('a')
    await expect(first.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST', cause: { code: 406 } })
    expect(await again.ack()).toBe(true)
    expect(proxy.connections).toBe(1)
  })

  it('under a publisher fails messages that are not confirmed, and the next call opens a new one', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const publisher = world.publisher()
    await publisher.publish(queue, [event('a')], { signal: never })

    world.breakChannels()
    const results = await publisher.publish(queue, [event('b')], { signal: never })

    expect(results).toMatchObject([{ ok: false, scope: 'destination' }])
    expect(await publisher.publish(queue, [event('b')], { signal: never })).toEqual([{ ok: true }])
  })
})

describe('a server', () => {
  it('that is restarted, gently and not, loses nothing and is consumed again', async () => {
    await using server = await startRabbitmq()
    await using world = await openWorld({ server: server.url })
    const queue = await world.queue({ type: 'quorum' })
    const ids = events(300)
    await world.fill(queue, ids)

    const seen = await consumeAll(world, queue, ids, async (count) => {
      if (count === 100) await server.restart()
      if (count === 200) {
        await server.kill()
        await server.restart()
      }
    })

    expect(new Set(seen)).toEqual(new Set(ids))
    expect(await world.publisher().publish(queue, [event('after')], { signal: never })).toEqual([{ ok: true }])
  }, 240_000)

  it('that refuses a message because of its size reports which one, and accepts the others', async () => {
    await using server = await startRabbitmq()
    await using world = await openWorld({ server: server.url })
    const queue = await world.queue()
    const publisher = world.publisher()
    const large = new Message(new Uint8Array(134_217_729), { id: 'large' })

    const results = await publisher.publish(queue, [event('a'), large, event('b')], { signal: never })

    expect(results[1]).toMatchObject({ ok: false, permanent: true, error: { code: 'ACKORD_PUBLISH_FAILED', retryable: false } })
    expect(results[1]).not.toHaveProperty('scope')
    expect(results[2]).toMatchObject({ ok: false, scope: 'destination' })
    expect(await publisher.publish(queue, [event('b')], { signal: never })).toEqual([{ ok: true }])
  }, 120_000)
})

/** Handles every delivery until each id was acked. Resolves to the ids in order of arrival. */
async function consumeAll(
  world: World,
  queue: string,
  ids: readonly string[],
  onMessage: (count: number) => void | Promise<void>,
): Promise<string[]> {
  const seen: string[] = []
  const open = new Set(ids)
  const stop = new AbortController()
  const source = world.source(queue, { prefetch: 20, backoff: quick })
  const consuming = (async () => {
    for await (const message of source.messages({ signal: stop.signal })) {
      seen.push(String(message.id))
      await onMessage(seen.length)
      try {
        await message.ack()
        open.delete(String(message.id))
      } catch (error) {
        if (!isAckordError(error, 'ACKORD_LEASE_LOST')) throw error
      }
    }
  })()
  await Promise.race([until(() => open.size === 0), consuming])
  stop.abort()
  await consuming
  await source[Symbol.asyncDispose]()
  return seen
}

async function drain(world: World, queue: string): Promise<string[]> {
  const ids: string[] = []
  for (
    let native = await world.admin.get(queue, { noAck: true });
    native !== false;
    native = await world.admin.get(queue, { noAck: true })
  ) {
    ids.push(String(native.properties.messageId))
  }
  return ids
}

async function roundTrip(world: World, queue: string): Promise<void> {
  const channel = await world.connection.createChannel()
  await channel.checkQueue(queue)
  await channel.close()
}
