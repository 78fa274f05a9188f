import { bytesMarshaler, eventHandler, MemoryBroker, messageKey, type RawMessage, RejectError, Router, silentLogger } from '@ackord/core'
import { deferred, recordingLogger, settlePromises, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type KafkaSourceOptions, kafkaSource } from '../../src/index.ts'
import { FakeError, FakeKafka } from '../support/fake-kafka.ts'
import { open, pull, pullMany } from '../support/world.ts'

const place = (message: RawMessage) => new TextDecoder().decode(message.data)

/** A source whose consumer has joined with partitions 0 and 1. */
async function setup(options: Partial<KafkaSourceOptions> = {}, signal?: AbortSignal) {
  const kafka = new FakeKafka()
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const source = kafkaSource(kafka, { topics: ['orders'], group: 'billing', runtime, logger, backoff: () => 1000, ...options })
  const messages = open(source, signal)
  const first = messages.next()
  await settlePromises()
  kafka.last.assign([0, 1])
  let begun = false
  const iterator: AsyncIterator<RawMessage> = {
    next() {
      const next = begun ? messages.next() : first
      begun = true
      return next
    },
    return: () => messages.return?.() ?? Promise.resolve({ value: undefined, done: true }),
  }
  return { kafka, runtime, logger, source, messages: iterator }
}

describe('offsets', () => {
  it('are committed up to the lowest that is not settled, and no further', async () => {
    const { kafka, runtime, messages } = await setup()
    kafka.last.fetch(0, '5', '6', '7', '9')
    const [five, six, seven, nine] = await pullMany(messages, 4)
    await six?.ack()
    await nine?.ack()
    await runtime.advance(100)
    expect(kafka.last.committed).toEqual({ 0: '5' })
    await five?.ack()
    await runtime.advance(100)
    expect(kafka.last.committed).toEqual({ 0: '7' })
    await seven?.ack()
    await runtime.advance(100)

    expect(kafka.last.committed).toEqual({ 0: '10' })
    expect(runtime.timers).toBe(0)
  })

  it('of many acks are committed together, and only once', async () => {
    const { kafka, runtime, messages } = await setup()
    kafka.last.fetch(0, '0', '1')
    kafka.last.fetch(1, '7')
    for (const message of await pullMany(messages, 3)) await message.ack()
    await runtime.advance(1000)

    expect(kafka.last.commits).toEqual([
      [
        { topic: 'orders', partition: 0, offset: '2' },
        { topic: 'orders', partition: 1, offset: '8' },
      ],
    ])
  })

  it('are committed from the first message on, before it is settled', async () => {
    const { kafka, runtime } = await setup({ from: 'newest' })
    kafka.last.fetch(0, '41')
    await runtime.advance(100)

    // Otherwise the group would skip messages that arrive before a rebalance.
    expect(kafka.last.committed).toEqual({ 0: '41' })
    expect(kafka.last.options.from).toBe('newest')
  })

  it('past 2^53 are exact', async () => {
    const { kafka, runtime, messages } = await setup()
    kafka.last.fetch(0, '9007199254740993')
    await (await pull(messages)).ack()
    await runtime.advance(100)

    expect(kafka.last.committed).toEqual({ 0: '9007199254740994' })
  })

  it('that cannot be committed are retried, with one log line', async () => {
    const { kafka, runtime, messages, logger } = await setup()
    let failures = 3
    kafka.last.onCommit = () => {
      failures -= 1
      return failures >= 0 ? Promise.reject(new Error('The group is rebalancing')) : Promise.resolve()
    }
    kafka.last.fetch(0, '0')
    expect(await (await pull(messages)).ack()).toBe(true)
    await runtime.advance(400)

    expect(kafka.last.committed).toEqual({ 0: '1' })
    expect(logger.at('warn')).toHaveLength(1)
  })

  it('are committed before a rebalance, and when the iteration is left', async () => {
    const { kafka, messages } = await setup()
    kafka.last.fetch(0, '0', '1')
    const [zero, one] = await pullMany(messages, 2)
    await zero?.ack()
    kafka.last.events.revoking()
    await settlePromises()
    expect(kafka.last.committed).toEqual({ 0: '1' })
    await one?.ack()
    await messages.return?.()

    expect(kafka.last.committed).toEqual({ 0: '2' })
    expect(kafka.last.closed).toBe(1)
  })
})

describe('order', () => {
  it('yields one message of a key at a time, the next when that is acked', async () => {
    const { kafka, messages } = await setup()
    kafka.last.fetch(0, 'a0', 'a1', 'b2', '3', '4')
    const [a0, b2, three, four] = await pullMany(messages, 4)
    const next = pull(messages)
    await b2?.ack()
    await settlePromises()
    kafka.last.fetch(1, '0')
    const other = await next
    const afterAck = pull(messages)
    await a0?.ack()

    expect([a0, b2, three, four, other].map((message) => message && place(message))).toEqual(['a0', 'b2', '3', '4', '0'])
    expect(place(await afterAck)).toBe('a1')
  })

  it('is kept after a nack: messages of the key wait, others continue', async () => {
    const { kafka, runtime, messages } = await setup()
    kafka.last.fetch(0, 'a0', 'a1', 'b2')
    const a0 = await pull(messages)
    await a0.nack(new Error('later'), { retryAfter: 5000 })
    const seen = [place(await pull(messages))]
    const again = pull(messages)
    await runtime.advance(4999)
    kafka.last.fetch(0, 'a3', 'c4')
    seen.push(place(await again))
    const redelivered = pull(messages)
    await runtime.advance(1)
    const second = await redelivered
    seen.push(place(second))
    await second.ack()
    seen.push(place(await pull(messages)))

    expect(seen).toEqual(['b2', 'c4', 'a0', 'a1'])
    expect([a0.deliveryCount, second.deliveryCount]).toEqual([1, 2])
  })

  it('redelivers immediately without a delay', async () => {
    const { kafka, messages } = await setup()
    kafka.last.fetch(0, 'a0')
    const counts: (number | undefined)[] = []
    for (let delivery = 0; delivery < 3; delivery += 1) {
      const message = await pull(messages)
      counts.push(message.deliveryCount)
      await message.nack()
    }

    expect(counts).toEqual([1, 2, 3])
  })
})

describe('back-pressure', () => {
  it('pauses a partition that has enough messages, and no other, and resumes it', async () => {
    const { kafka, messages } = await setup({ prefetch: 4 })
    expect(kafka.last.fetch(0, '0', '1', '2', '3', '4', '5')).toBe(4)
    expect([...kafka.last.paused]).toEqual([0])
    expect(kafka.last.fetch(1, '0')).toBe(1)
    const taken = await pullMany(messages, 5)
    await taken[0]?.ack()
    expect(kafka.last.paused.size).toBe(1)
    await taken[1]?.ack()

    expect(kafka.last.paused.size).toBe(0)
    expect(kafka.last.fetch(0, '4', '5')).toBe(2)
  })

  it('includes delayed messages', async () => {
    const { kafka, messages } = await setup({ prefetch: 2 })
    kafka.last.fetch(0, '0')
    await (await pull(messages)).nack(new Error('later'), { retryAfter: 60_000 })

    expect(kafka.last.fetch(0, '1', '2')).toBe(1)
    expect(kafka.last.paused.size).toBe(1)
  })
})

describe('during a rebalance', () => {
  it('messages of revoked partitions cannot be settled, those of kept partitions can', async () => {
    const { kafka, runtime, messages } = await setup()
    kafka.last.fetch(0, '0')
    kafka.last.fetch(1, '0')
    const [gone, kept] = await pullMany(messages, 2)

    kafka.last.assign([1, 2])

    await expect(gone?.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
    expect(await kept?.ack()).toBe(true)
    await runtime.advance(100)
    expect(kafka.last.committed).toEqual({ 1: '1' })
  })

  it('messages of kept partitions are not delivered twice, although they are fetched again', async () => {
    const { kafka, messages } = await setup()
    kafka.last.fetch(0, '0', '1', '2')
    const [zero, one] = await pullMany(messages, 2)
    await one?.ack()
    kafka.last.assign([0, 1])
    // Fetched from the committed offset, which is none yet.
    expect(kafka.last.fetch(0, '0', '1', '2', '3')).toBe(4)
    const rest = (await pullMany(messages, 2)).map(place)

    expect(rest).toEqual(['2', '3'])
    expect(await zero?.ack()).toBe(true)
  })

  it('messages that wait to be yielded, or for their delay, are dropped with their partition', async () => {
    const { kafka, runtime, messages } = await setup()
    kafka.last.fetch(0, '0', '1')
    await (await pull(messages)).nack(new Error('later'), { retryAfter: 1000 })
    kafka.last.assign([1])
    const next = pull(messages)
    await runtime.advance(2000)
    kafka.last.fetch(1, '7')

    expect(place(await next)).toBe('7')
    // The timer of the commit of the partition's first offset; no delay is left.
    await runtime.advance(100)
    expect(runtime.timers).toBe(0)
  })

  it('nothing more is yielded until the assignment is known; messages being handled are settled and committed', async () => {
    const { kafka, runtime, messages } = await setup()
    kafka.last.fetch(0, 'a0', 'a1', 'a2')
    kafka.last.fetch(1, 'b0', 'b1')
    const [a0, b0] = await pullMany(messages, 2)
    kafka.last.events.revoking()
    const next = pull(messages)
    let handedOut = false
    void next.then(() => (handedOut = true))
    await a0?.ack()
    await b0?.ack()
    await runtime.advance(1000)
    expect(handedOut).toBe(false)
    expect(kafka.last.committed).toEqual({ 0: '1', 1: '1' })

    kafka.last.assign([1])

    expect(place(await next)).toBe('b1')
  })

  it.each(['once', 'again and again'])('and that comes to nothing %s, the suspended messages are handed out', async (times) => {
    const { kafka, messages } = await setup()
    kafka.last.fetch(0, '0', '1')
    for (let round = 0; round < (times === 'once' ? 1 : 5); round += 1) kafka.last.events.revoking()
    const both = pullMany(messages, 2)
    await settlePromises()

    // The client could not join in the end, and the group is unchanged.
    kafka.last.events.confirmed()

    expect((await both).map(place)).toEqual(['0', '1'])
  })

  it('messages that are nacked meanwhile, or whose delay ends, are delivered afterwards, once, as their second delivery', async () => {
    const { kafka, runtime, messages } = await setup()
    kafka.last.fetch(0, '0', '1')
    const [zero, one] = await pullMany(messages, 2)
    await zero?.nack(new Error('later'), { retryAfter: 500 })
    kafka.last.events.revoking()
    const again = pullMany(messages, 2)
    await one?.nack(new Error('again'))
    await runtime.advance(1000)
    kafka.last.events.revoking()
    await settlePromises()
    kafka.last.assign([0, 1])
    // The partition is read from the committed offset.
    kafka.last.fetch(0, '0', '1')

    const delivered = await again
    expect(delivered.map(place)).toEqual(['1', '0'])
    expect(delivered.map(({ deliveryCount }) => deliveryCount)).toEqual([2, 2])
    const next = pull(messages)
    for (const message of delivered) await message.ack()
    kafka.last.fetch(0, '2')
    expect(place(await next)).toBe('2')
  })

  it.each(['a crash', 'leaving', 'disposing'])(
    'and %s comes before it is known what stayed, nothing is handed out, and nothing is left',
    async (end) => {
      const { kafka, runtime, source, messages } = await setup()
      kafka.last.fetch(0, 'a0', 'a1', 'b2')
      const a0 = await pull(messages)
      await a0.nack(new Error('later'), { retryAfter: 60_000 })
      kafka.last.events.revoking()
      const { last } = kafka
      if (end === 'a crash') last.events.crashed(new Error('lost'))
      else if (end === 'leaving') await messages.return?.()
      else await source[Symbol.asyncDispose]()
      last.events.confirmed()
      last.assign([0, 1])
      const next = messages.next()
      await runtime.advance(100)

      expect(last.closed).toBe(1)
      if (end !== 'a crash') expect(await next).toEqual({ value: undefined, done: true })
      else {
        await runtime.advance(1000)
        kafka.last.assign([0])
        kafka.last.fetch(0, 'a0')
        const { value } = await next
        expect(value?.deliveryCount).toBe(1)
        await value?.ack()
        await messages.return?.()
      }
      expect(runtime.timers).toBe(0)
    },
  )

  it('in which this member was evicted, nothing can be settled, and all messages are read again', async () => {
    const { kafka, messages } = await setup()
    kafka.last.fetch(0, '0', '1')
    const [zero] = await pullMany(messages, 2)

    kafka.last.assign([0, 1], 'member-2')

    await expect(zero?.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
    kafka.last.fetch(0, '0', '1')
    expect((await pullMany(messages, 2)).map(place)).toEqual(['0', '1'])
  })

  it('after which a partition is read from an earlier offset, nothing is skipped', async () => {
    const { kafka, messages } = await setup()
    kafka.last.fetch(0, '7')
    const seven = await pull(messages)

    kafka.last.fetch(0, '5', '6', '7')

    expect((await pullMany(messages, 3)).map(place)).toEqual(['5', '6', '7'])
    await expect(seven.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
  })

  it('pauses are applied again', async () => {
    const { kafka } = await setup({ prefetch: 1 })
    kafka.last.fetch(0, '0', '1')
    kafka.last.paused.clear()
    kafka.last.paused.add(1)
    kafka.last.assign([0, 1])

    expect([...kafka.last.paused]).toEqual([0])
  })

  it('messages of a partition that is not assigned are not accepted', async () => {
    const { kafka } = await setup()

    expect(kafka.last.fetch(9, '0')).toBe(0)
  })
})

describe('a consumer that crashes', () => {
  it('is replaced, after a pause, with one log entry when it is lost and one when it is restored', async () => {
    const { kafka, runtime, messages, logger } = await setup()
    kafka.last.fetch(0, '0')
    const lost = await pull(messages)
    kafka.onConsumer = (consumer) => {
      if (kafka.consumers.length < 4) consumer.onStart = () => Promise.reject(new Error('no broker'))
    }
    kafka.last.events.crashed(new Error('connection lost'))
    await runtime.advance(999)
    expect(kafka.consumers).toHaveLength(1)
    await runtime.advance(2001)
    expect(kafka.consumers).toHaveLength(4)
    kafka.last.assign([0])
    kafka.last.fetch(0, '0')

    expect(place(await pull(messages))).toBe('0')
    await expect(lost.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
    expect(logger.lines.map(({ level }) => level)).toEqual(['warn', 'info'])
    for (const consumer of kafka.consumers.slice(0, 3)) expect(consumer.closed).toBe(1)
  })

  it('ends the source if access was denied', async () => {
    const { kafka, messages } = await setup()
    const next = messages.next()
    kafka.last.events.crashed(new FakeError('access'))

    await expect(next).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', message: expect.stringContaining('not allowed') })
    expect(await messages.next()).toEqual({ value: undefined, done: true })
  })

  it('ends the source if a topic is missing at the start, but not later', async () => {
    const early = await setup()
    const ended = early.messages.next()
    early.kafka.last.events.crashed(new FakeError('topic'))
    await expect(ended).rejects.toMatchObject({ message: expect.stringContaining('does not exist') })

    const late = await setup()
    await late.runtime.advance(10_000)
    late.kafka.last.events.crashed(new FakeError('topic'))
    await late.runtime.advance(1000)
    expect(late.kafka.consumers).toHaveLength(2)
  })
})

describe('the end', () => {
  it('by an abort while Kafka is unreachable is immediate', async () => {
    const stop = new AbortController()
    const kafka = new FakeKafka()
    const starting = deferred()
    kafka.onConsumer = (consumer) => {
      consumer.onStart = () => starting.promise
    }
    const runtime = new VirtualRuntime()
    const source = kafkaSource(kafka, { topics: ['orders'], group: 'billing', runtime, logger: silentLogger })
    const next = open(source, stop.signal).next()
    await settlePromises()
    stop.abort()

    expect(await next).toEqual({ value: undefined, done: true })
    expect(kafka.last.closed).toBe(1)
    starting.resolve()
    await settlePromises()
    expect(runtime.timers).toBe(0)
  })

  it('by an abort during the pause is immediate', async () => {
    const stop = new AbortController()
    const { kafka, runtime, messages } = await setup({}, stop.signal)
    const next = messages.next()
    kafka.last.events.crashed(new Error('gone'))
    await settlePromises()
    stop.abort()

    expect(await next).toEqual({ value: undefined, done: true })
    expect(runtime.timers).toBe(0)
  })

  it('stays in the group until messages being handled are settled, and accepts nothing more', async () => {
    const { kafka, messages } = await setup()
    kafka.last.fetch(0, '0', '1')
    const zero = await pull(messages)
    await messages.return?.()
    expect(kafka.last.closed).toBe(0)
    expect([...kafka.last.paused].sort()).toEqual([0, 1])
    expect(kafka.last.fetch(0, '2')).toBe(0)

    expect(await zero.ack()).toBe(true)
    await settlePromises()

    expect(kafka.last.closed).toBe(1)
    // The message that was not yielded is not skipped by the commit.
    expect(kafka.last.committed).toEqual({ 0: '1' })
  })

  it('is reached after a nack too, with or without a delay', async () => {
    const { kafka, runtime, messages } = await setup()
    kafka.last.fetch(0, '0', '1')
    const [zero, one] = await pullMany(messages, 2)
    await messages.return?.()
    await zero?.nack()
    await one?.nack(new Error('later'), { retryAfter: 60_000 })
    await settlePromises()

    expect(kafka.last.closed).toBe(1)
    expect(kafka.last.committed).toEqual({ 0: '0' })
    expect(runtime.timers).toBe(0)
  })

  it('by disposing refuses later verdicts', async () => {
    const { kafka, runtime, source, messages } = await setup()
    kafka.last.fetch(0, '0', '1')
    const [zero, one] = await pullMany(messages, 2)
    await zero?.ack()
    await source[Symbol.asyncDispose]()

    await expect(one?.ack()).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(kafka.last.committed).toEqual({ 0: '1' })
    expect(kafka.last.closed).toBe(1)
    expect(await messages.next()).toEqual({ value: undefined, done: true })
    expect(runtime.timers).toBe(0)
  })

  it('does not wait for a Kafka that does not answer', async () => {
    const { kafka, runtime, source, messages } = await setup()
    kafka.last.fetch(0, '0')
    await (await pull(messages)).ack()
    kafka.last.onCommit = () => new Promise(() => {})
    const disposing = source[Symbol.asyncDispose]()
    await runtime.advance(10_000)

    await disposing
    expect(kafka.last.closed).toBe(1)
  })
})

describe('rejected messages', () => {
  it('go to the dead letter, and their offset is committed', async () => {
    const broker = new MemoryBroker()
    const { kafka, runtime, messages } = await setup({ deadLetter: { publisher: broker, destination: 'dead' } })
    kafka.last.fetch(0, 'a0')
    await (await pull(messages)).reject(new RejectError('never'))
    await runtime.advance(100)

    expect((await pull(open(broker.source('dead')))).attributes).toMatchObject({ id: 'orders/0/0', deadletterreason: 'never' })
    expect(kafka.last.committed).toEqual({ 0: '1' })
  })

  it('include messages that cannot be read', async () => {
    const broker = new MemoryBroker()
    const { kafka, messages, logger } = await setup({
      deadLetter: { publisher: broker, destination: 'dead' },
      attributes: ({ offset }) => {
        if (offset === '0') throw new Error('unreadable')
        return { id: offset }
      },
    })
    kafka.last.fetch(0, 'a0', 'a1')

    expect((await pull(messages)).id).toBe('1')
    expect((await pull(open(broker.source('dead')))).attributes).toMatchObject({
      id: 'orders/0/0',
      deadlettercode: 'ACKORD_INVALID_MESSAGE',
    })
    expect(logger.at('error')).toHaveLength(1)
  })

  it('include messages that fail too often; later messages of the key follow', async () => {
    const broker = new MemoryBroker()
    const kafka = new FakeKafka()
    const source = kafkaSource(kafka, {
      topics: ['orders'],
      group: 'billing',
      logger: silentLogger,
      deadLetter: { publisher: broker, destination: 'dead' },
      commitInterval: 0,
    })
    const handled: (string | undefined)[] = []
    const router = new Router({ maxDeliveries: 3, concurrency: 4, logger: silentLogger, redeliveryDelay: () => 0 })
    const done = deferred()
    router.handle(
      eventHandler({ type: 'orders' }, (_data, context) => {
        const id = context.get(messageKey)?.id
        handled.push(id)
        if (id === 'orders/0/0') throw new Error('poison')
        if (id === 'orders/0/2') done.resolve()
        return []
      }),
    )
    const stop = new AbortController()
    const running = router.run(source, { signal: stop.signal, marshaler: bytesMarshaler })
    await settlePromises()
    kafka.last.assign([0])
    kafka.last.fetch(0, 'a0', 'a1', 'a2')
    await done.promise
    stop.abort()
    await running

    expect(handled).toEqual(['orders/0/0', 'orders/0/0', 'orders/0/0', 'orders/0/1', 'orders/0/2'])
    expect((await pull(open(broker.source('dead')))).attributes).toMatchObject({
      id: 'orders/0/0',
      deadlettercode: 'ACKORD_MAX_DELIVERIES',
    })
  })
})
