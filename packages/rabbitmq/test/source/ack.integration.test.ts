import { isAckordError, RejectError } from '@ackord/core'
import { VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { events, open, openWorld, pull, pullMany, until } from '../support/world.ts'

describe('settling', () => {
  it('acks one message and not its neighbours', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, events(10))
    const source = world.source(queue)
    const taken = await pullMany(open(source), 10)

    expect(await taken[4]?.ack()).toBe(true)
    await source[Symbol.asyncDispose]()
    await until(async () => (await world.ready(queue)) === 9)
    const again = await pullMany(open(world.source(queue)), 9)

    expect(again.map(({ id }) => id)).toEqual(events(10).filter((id) => id !== 'm4'))
  })

  it('delivers a nacked message again', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a'])
    const messages = open(world.source(queue))
    const first = await pull(messages)

    expect(await first.nack(new Error('not now'))).toBe(true)
    const second = await pull(messages)

    expect(second.id).toBe('a')
    expect(await second.ack()).toBe(true)
  })

  it('settles once: a second ack resolves to true, an ack after a nack to false', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a', 'b'])
    const messages = open(world.source(queue))
    const [a, b] = await pullMany(messages, 2)

    expect([await a?.ack(), await a?.ack(), await a?.nack()]).toEqual([true, true, false])
    expect([await b?.nack(), await b?.ack(), await b?.nack()]).toEqual([true, false, true])
    // The channel is still open: one acknowledgement too many would have closed it.
    expect((await pull(messages)).id).toBe('b')
    expect(world.logger.at('warn')).toEqual([])
  })

  it('delays a nacked message, and continues with others', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a', 'b'])
    const runtime = new VirtualRuntime()
    const messages = open(world.source(queue, { runtime }))
    const a = await pull(messages)

    await a.nack(new Error('later'), { retryAfter: 60_000 })
    const b = await pull(messages)
    await b.ack()
    await runtime.advance(59_999)
    expect(await world.ready(queue)).toBe(0)
    const again = pull(messages)
    await runtime.advance(1)

    expect([b.id, (await again).id]).toEqual(['b', 'a'])
  })

  it('releases a delayed message to other consumers when the iteration is left', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a'])
    const messages = open(world.source(queue))
    await (await pull(messages)).nack(new Error('later'), { retryAfter: 600_000 })

    await messages.return?.()

    expect((await pull(open(world.source(queue)))).id).toBe('a')
    expect(world.openChannels()).toBe(1)
  })

  it('publishes a rejected message to the dead letter, with its bytes and attributes', async () => {
    await using world = await openWorld()
    const [queue, dead] = [await world.queue(), await world.queue()]
    await world.fill(queue, ['a', 'b'])
    const source = world.source(queue, { deadLetter: { publisher: world.publisher(), destination: dead } })
    const messages = open(source)

    await (await pull(messages)).reject(new RejectError('never'))
    const letter = await pull(open(world.source(dead)))
    expect(letter.attributes).toMatchObject({ id: 'a', type: 'test.event', deadletterreason: 'never' })
    expect(new TextDecoder().decode(letter.data)).toBe('{"id":"a"}')

    await source[Symbol.asyncDispose]()
    expect((await pull(open(world.source(queue)))).id).toBe('b')
  })

  it('delivers a rejected message again when its dead letter does not exist', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a'])
    const runtime = new VirtualRuntime()
    const deadLetter = { publisher: world.publisher(), destination: world.name() }
    const messages = open(world.source(queue, { runtime, deadLetter }))

    const refused = await (await pull(messages)).reject(new RejectError('never')).catch((error: unknown) => error)

    expect(isAckordError(refused, 'ACKORD_PUBLISH_FAILED')).toBe(true)
    await runtime.advance(2000)
    expect((await pull(messages)).id).toBe('a')
  })

  it('refuses a verdict after the source was disposed, and delivers the message again', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a'])
    const source = world.source(queue)
    const message = await pull(open(source))
    await source[Symbol.asyncDispose]()

    await expect(message.ack()).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect((await pull(open(world.source(queue)))).id).toBe('a')
  })
})

describe('the delivery count', () => {
  it('grows on a quorum queue', async () => {
    await using world = await openWorld()
    const queue = await world.queue({ type: 'quorum' })
    await world.fill(queue, ['a'])
    const messages = open(world.source(queue))
    const counts: (number | undefined)[] = []
    for (let delivery = 0; delivery < 4; delivery += 1) {
      const message = await pull(messages)
      counts.push(message.deliveryCount)
      await message.nack()
    }

    expect(counts).toEqual([1, 2, 3, 4])
  })

  it.each(['classic', 'quorum'] as const)('on a %s queue is not the count that the sender wrote', async (type) => {
    await using world = await openWorld()
    const queue = await world.queue({ type })
    world.admin.sendToQueue(queue, Buffer.from('x'), { messageId: 'a', headers: { 'x-delivery-count': 50, 'x-ackord-deliveries': 50 } })
    const messages = open(world.source(queue))
    const counts: (number | undefined)[] = []
    for (let delivery = 0; delivery < 4; delivery += 1) {
      const message = await pull(messages)
      counts.push(message.deliveryCount)
      await message.nack()
    }

    expect(counts).toEqual([1, 2, 3, 4])
  })

  it('grows on a classic queue, within the process', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a'])
    const messages = open(world.source(queue))
    const counts: (number | undefined)[] = []
    for (let delivery = 0; delivery < 4; delivery += 1) {
      const message = await pull(messages)
      counts.push(message.deliveryCount)
      await message.nack()
    }

    expect(counts).toEqual([1, 2, 3, 4])
  })

  it('counts the rounds through a dead-letter exchange', async () => {
    await using world = await openWorld()
    const waiting = world.name()
    const queue = await world.queue({ arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': waiting } })
    await world.admin.assertQueue(waiting, {
      arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': queue, 'x-message-ttl': 1 },
    })
    await world.fill(queue, ['a'])
    for (let round = 0; round < 2; round += 1) {
      let native = await world.admin.get(queue)
      while (native === false) native = await world.admin.get(queue)
      world.admin.nack(native, false, false)
    }

    expect((await pull(open(world.source(queue)))).deliveryCount).toBe(3)
  })
})

describe('prefetch', () => {
  it('is the maximum of unsettled messages of an iteration', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, events(10))
    const messages = open(world.source(queue, { prefetch: 3 }))
    const taken = await pullMany(messages, 3)
    expect(await world.ready(queue)).toBe(7)

    const fourth = pull(messages)
    await taken[1]?.ack()

    expect((await fourth).id).toBe('m3')
    expect(await world.ready(queue)).toBe(6)
  })

  it('includes delayed messages', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, events(3))
    const messages = open(world.source(queue, { prefetch: 2 }))
    const [first, second] = await pullMany(messages, 2)
    await first?.nack(new Error('later'), { retryAfter: 600_000 })
    expect(await world.ready(queue)).toBe(1)

    await second?.ack()

    expect((await pull(messages)).id).toBe('m2')
  })

  it('lets two consumers split the work', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const [one, other] = [open(world.source(queue, { prefetch: 1 })), open(world.source(queue, { prefetch: 1 }))]
    const pulls = [pull(one), pull(other)]
    await until(async () => (await world.admin.checkQueue(queue)).consumerCount === 2)
    await world.fill(queue, ['a', 'b'])

    const ids = (await Promise.all(pulls)).map(({ id }) => id)

    expect(ids.sort()).toEqual(['a', 'b'])
  })
})
