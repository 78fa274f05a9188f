import { contextKey, currentContext, enter, type RawMessage, rootContext } from '@ackord/core'
import { recordingLogger, settlePromises, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type RabbitmqSourceOptions, rabbitmqSource } from '../../src/index.ts'
import { FakeConnection } from '../support/fake-connection.ts'

interface Setup {
  readonly connection: FakeConnection
  readonly runtime: VirtualRuntime
  readonly logger: ReturnType<typeof recordingLogger>
  readonly stop: AbortController
  readonly messages: AsyncIterator<RawMessage>
  next(): Promise<RawMessage | undefined>
}

function setup(options: Partial<RabbitmqSourceOptions> = {}): Setup {
  const connection = new FakeConnection()
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const stop = new AbortController()
  const source = rabbitmqSource(connection, { queue: 'orders', runtime, logger, ...options })
  const messages = source.messages({ signal: stop.signal })[Symbol.asyncIterator]()
  return { connection, runtime, logger, stop, messages, next: async () => (await messages.next()).value }
}

describe('a nack with a delay', () => {
  it('holds the message for that long, and then returns it', async () => {
    const { connection, runtime, next } = setup()
    const pulling = next()
    await settlePromises()
    connection.last.deliver('a')
    const message = await pulling

    await message?.nack(new Error('later'), { retryAfter: 60_000 })
    await runtime.advance(59_999)
    expect(connection.last.requeued).toEqual([])
    await runtime.advance(1)
    expect(connection.last.requeued).toEqual([1])
    expect(runtime.timers).toBe(0)
  })

  it.each([
    ['is acked when RabbitMQ has confirmed the copy, and not before', null, { acked: [2], requeued: [1] }],
    ['is kept in the process if RabbitMQ refuses the copy', new Error('message nacked'), { acked: [], requeued: [1, 2] }],
  ])('past half of the prefetch %s', async (_title, answer, settled) => {
    const { connection, runtime, next } = setup({ prefetch: 2 })
    const pulling = next()
    await settlePromises()
    const [channel] = connection.channels
    for (const id of ['a', 'b']) channel?.deliver(id)
    await (await pulling)?.nack(new Error('later'), { retryAfter: 1000 })
    const nacking = (await next())?.nack(new Error('later'), { retryAfter: 1000 })
    await settlePromises()
    const [copy, ...more] = connection.channels.flatMap(({ published }) => published)
    expect([copy?.headers, more]).toMatchObject([{ 'x-ackord-deliveries': 1 }, []])
    expect(channel?.acked).toEqual([])

    copy?.confirm(answer)
    await nacking
    await runtime.advance(1000)
    expect({ acked: channel?.acked, requeued: channel?.requeued }).toEqual(settled)
  })

  it('is capped at maxDelay', async () => {
    const { connection, runtime, next } = setup({ maxDelay: 1000 })
    const pulling = next()
    await settlePromises()
    connection.last.deliver('a')

    await (await pulling)?.nack(new Error('later'), { retryAfter: 1e12 })
    await runtime.advance(1000)

    expect(connection.last.requeued).toEqual([1])
  })

  it('ends with its channel, and leaves no timer', async () => {
    const { connection, runtime, next } = setup({ backoff: () => 7 })
    const pulling = next()
    await settlePromises()
    const [channel] = connection.channels
    channel?.deliver('a')
    await (await pulling)?.nack(new Error('later'), { retryAfter: 60_000 })

    channel?.lose()
    await settlePromises()

    // The timer of the pause before another channel is opened.
    expect([runtime.timers, runtime.nextTimer]).toEqual([1, 7])
    await runtime.advance(120_000)
    expect(channel?.requeued).toEqual([])
  })
})

describe('a consumer that is lost', () => {
  it('is opened again with a growing pause, and one line in the log', async () => {
    const { connection, runtime, logger, next } = setup()
    connection.outcomes.push(...Array.from({ length: 12 }, () => new Error('no channel')))
    void next()
    await settlePromises()
    const pauses: number[] = []
    while (connection.channels.length === 0) {
      const pause = runtime.nextTimer ?? 0
      pauses.push(pause)
      await runtime.advance(pause)
    }

    expect(pauses).toHaveLength(12)
    for (const [index, pause] of pauses.entries()) {
      const middle = Math.min(100 * 2 ** index, 30_000)
      expect(pause).toBeGreaterThanOrEqual(middle * 0.8)
      expect(pause).toBeLessThanOrEqual(middle * 1.2)
    }
    expect(new Set(pauses.slice(-3)).size).toBe(3)
    expect(logger.at('warn')).toHaveLength(1)
    expect(logger.at('info')).toHaveLength(1)
  })

  it('is opened at most a hundred times a second, whatever the back-off says', async () => {
    const { connection, runtime, next, stop } = setup({ backoff: () => 0 })
    connection.outcomes.push(...Array.from({ length: 5000 }, () => new Error('not now')))
    const pulling = next()
    await runtime.advance(1000)
    expect(5000 - connection.outcomes.length).toBe(102)
    stop.abort()
    expect(await pulling).toBeUndefined()
  })

  it('starts at the short pause again after a stable period', async () => {
    const attempts: number[] = []
    const { connection, runtime, next } = setup({ backoff: (attempt) => attempts.push(attempt) })
    void next()
    for (const lived of [0, 0, 20_000]) {
      await settlePromises()
      await runtime.advance(lived)
      connection.last.lose()
      await settlePromises()
      await runtime.advance(1000)
    }

    expect(attempts).toEqual([1, 2, 1])
  })

  it('drops messages that were not yielded, and never settles them on another channel', async () => {
    const { connection, runtime, next } = setup({ backoff: () => 1 })
    const pulling = next()
    await settlePromises()
    const [first] = connection.channels
    first?.deliver('a')
    first?.deliver('b')
    const a = await pulling
    first?.lose(Object.assign(new Error('Channel closed by server'), { code: 406 }))
    await runtime.advance(1)
    const pullingAgain = next()
    connection.last.deliver('c')

    await expect(a?.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST', cause: { code: 406 } })
    expect((await pullingAgain)?.id).toBe('c')
    expect(connection.channels.map(({ acked, requeued }) => [acked, requeued])).toEqual([
      [[], []],
      [[], []],
    ])
  })

  it('because the server cancelled it returns messages that were not yielded, and keeps the channel for the rest', async () => {
    const { connection, runtime, next } = setup({ backoff: () => 1 })
    const pulling = next()
    await settlePromises()
    const [first] = connection.channels
    first?.deliver('a')
    first?.deliver('b')
    const a = await pulling

    first?.cancelByServer()
    await runtime.advance(1)
    expect(first?.requeued).toEqual([2])
    expect(first?.closed).toBe(false)
    await a?.ack()
    await settlePromises()

    expect(first?.acked).toEqual([1])
    expect(first?.closed).toBe(true)
    expect(connection.channels).toHaveLength(2)
  })
})

describe('an iteration', () => {
  it('ends with an error when amqplib has given up', async () => {
    const { connection, next } = setup()
    const reason = new Error('gave up after 3 tries')
    connection.outcomes.push('hang')
    const pulling = next()
    await settlePromises()
    connection.emit('reconnect-failed', reason)
    connection.hanging[0]?.reject(reason)

    await expect(pulling).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', cause: reason })
    expect(await next()).toBeUndefined()
  })

  it('ends with the error of a back-off that throws', async () => {
    const wrong = new Error('no back-off')
    const { connection, next } = setup({
      backoff: () => {
        throw wrong
      },
    })
    connection.outcomes.push(new Error('no channel'))

    await expect(next()).rejects.toBe(wrong)
  })

  it('reports a failure between two pulls to the next one, once', async () => {
    const { connection, runtime, next } = setup({ backoff: () => 1 })
    const pulling = next()
    await settlePromises()
    connection.last.deliver('a')
    await (await pulling)?.ack()
    connection.outcomes.push(new Error('Connection closed'))
    connection.last.lose()
    await runtime.advance(1)

    await expect(next()).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED' })
    expect(await next()).toBeUndefined()
  })

  it('that is left while it connects closes the channel that comes too late', async () => {
    const { connection, stop, next } = setup()
    connection.outcomes.push('hang')
    const pulling = next()
    await settlePromises()

    stop.abort()
    expect(await pulling).toBeUndefined()
    const late = await connection.createChannel()
    connection.hanging[0]?.resolve(late)
    await settlePromises()

    expect(late.closed).toBe(true)
  })

  it.each(Array.from({ length: 25 }, (_, steps) => steps))('that is left %i steps after it began leaves no channel open', async (steps) => {
    const { connection, runtime, stop, next } = setup({ declare: { type: 'quorum' } })
    const pulling = next()
    for (let step = 0; step < steps; step += 1) await Promise.resolve()

    stop.abort()
    expect(await pulling).toBeUndefined()
    await settlePromises()

    expect(connection.channels.filter(({ closed, consuming }) => !closed || consuming)).toEqual([])
    expect(runtime.timers).toBe(0)
  })

  it('keeps no reference to the context in which it began', async () => {
    const key = contextKey<string>('test')
    const seen: (string | undefined)[] = []
    const { connection, next } = setup({
      backoff: () => {
        seen.push(currentContext()?.get(key))
        return 1
      },
    })
    connection.outcomes.push(new Error('no channel'))
    void enter(rootContext().with(key, 'a handler'), () => next())
    await settlePromises()

    expect(seen).toEqual([undefined])
  })
})
