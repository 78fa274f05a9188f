import { isAckordError, Message, type RawMessage } from '@ackord/core'
import { startFaultProxy } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { startRabbitmq4 } from '../../../scripts/servers/index.mjs'
import { amqpUrl, event, never, numbered, openWorld, pull, read, until, type World } from './support/world.ts'

describe('a connection that is cut', () => {
  it.concurrent('while messages are consumed loses none of them', async () => {
    await using proxy = await startFaultProxy(amqpUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    const ids = numbered(400)
    await world.fill(queue, ids)
    const seen = await consumeAll(world, queue, ids, (count) => {
      if (count % 100 === 50) proxy.cut()
    })
    expect(new Set(seen)).toEqual(new Set(ids))
    expect(await world.ready(queue)).toBe(0)
  })

  it.concurrent('while messages are published keeps every confirmed one', async () => {
    await using proxy = await startFaultProxy(amqpUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    const publisher = world.publisher()
    const confirmed = new Set<string>()
    for (let round = 0; round < 12; round += 1) {
      const ids = numbered(20, `r${round}-`)
      const publishing = publisher.publish(
        queue,
        ids.map((id) => event(id)),
        { signal: never },
      )
      if (round % 3 === 1) proxy.cut()
      const results = await publishing
      results.forEach((result, index) => {
        if (result.ok) confirmed.add(ids[index] ?? '')
        else expect(result).toMatchObject({ scope: 'destination' })
      })
    }
    expect(confirmed.size).toBeGreaterThanOrEqual(8 * 20)
    const stored = new Set(await drain(world, queue))
    for (const id of confirmed) expect(stored).toContain(id)
  })

  it.concurrent('loses the leases of its messages, and the log has one entry for the loss and one for the recovery', async () => {
    await using proxy = await startFaultProxy(amqpUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    await world.fill(queue, ['a'])
    const messages = read(world.source(queue))
    const first = await pull(messages)
    proxy.cut()
    const again = await pull(messages)
    expect([again.id, again.deliveryCount]).toEqual(['a', expect.any(Number)])
    await expect(first.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
    expect(await again.ack()).toBe(true)
    expect(world.logger.at('warn').map(({ text }) => text)).toEqual([expect.stringContaining('link to the AMQP broker was lost')])
    expect(world.logger.at('info').map(({ text }) => text)).toEqual([expect.stringContaining('read again')])
  })

  it.concurrent('in the middle of a large message loses neither the message nor the connection after it', async () => {
    await using proxy = await startFaultProxy(amqpUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    const data = new Uint8Array(3_000_000).map((_, index) => index % 251)
    const large = new Message(data, { id: 'large', type: 't', source: '/s', specversion: '1.0' })
    const publisher = world.publisher()
    let passed = 0
    proxy.judge((bytes) => {
      passed += bytes.byteLength
      if (passed < 1_000_000) return 'pass'
      proxy.judge()
      return 'cut before'
    })
    expect(await publisher.publish(queue, [large], { signal: never })).toMatchObject([{ ok: false, scope: 'destination' }])
    expect(await publisher.publish(queue, [large], { signal: never })).toEqual([{ ok: true }])
    const received: RawMessage = await pull(read(world.source(queue)))
    expect(Buffer.compare(received.data, data)).toBe(0)
    await received.ack()
    expect(await world.ready(queue)).toBe(0)
  })

  it.concurrent('before anything was read is waited for', async () => {
    await using proxy = await startFaultProxy(amqpUrl)
    proxy.refuse(true)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    const pulling = pull(read(world.source(queue)))
    await world.fill(queue, ['a'])
    proxy.refuse(false)
    expect((await pulling).id).toBe('a')
  })
})

describe('a connection that the application closes', () => {
  it.concurrent('ends a source, and a publisher says what to do', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a'])
    const own = world.another()
    const publisher = world.publisher({}, own)
    const messages = read(world.source(queue, {}, own))
    await (await pull(messages)).ack()
    own.close()
    await expect(messages.next()).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', message: expect.stringContaining('reconnect') })
    expect(await publisher.publish(queue, [event('b')], { signal: never })).toMatchObject([
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('Close the connection after the publisher') } },
    ])
  })
})

describe('a server', () => {
  it('that is restarted, gently and not, loses nothing and is consumed again', async () => {
    await using server = await startRabbitmq4()
    await using world = await openWorld({ server: server.url })
    const queue = await world.queue()
    const ids = numbered(300)
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
  const source = world.source(queue, { prefetch: 20 })
  const consuming = (async () => {
    for await (const message of source.messages({ signal: stop.signal })) {
      seen.push(String(message.id))
      await onMessage(seen.length)
      try {
        await message.ack()
        open.delete(String(message.id))
        if (open.size === 0) stop.abort()
      } catch (error) {
        if (!isAckordError(error, 'ACKORD_LEASE_LOST')) throw error
      }
    }
  })()
  await consuming
  await source[Symbol.asyncDispose]()
  return seen
}

/** The ids of all messages of a queue, which is empty then. */
async function drain(world: World, queue: string): Promise<string[]> {
  const ids: string[] = []
  await until(async () => {
    const native = await world.admin.get(queue, { noAck: true })
    if (native !== false) ids.push(String(native.properties.messageId))
    return native === false
  })
  return ids
}
