import { describe, expect, it } from 'vitest'
import { Message, type RawMessage } from '../src/message.ts'
import type { Publisher, PublishResult } from '../src/publisher.ts'
import { createReceiver, type ReceiverOptions } from '../src/receiver.ts'
import { recordingLogger } from './support/recording-logger.ts'
import { VirtualRuntime } from './support/virtual-runtime.ts'

const failure = new Error('cannot be handled')

function open(options: ReceiverOptions = {}) {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const receive = createReceiver({ runtime, logger, ...options })
  const calls: { call: string; error?: unknown; retryAfter?: number | undefined }[] = []
  const deliver = (deliveryCount?: number): RawMessage =>
    receive({
      data: new TextEncoder().encode('{"n":1}'),
      attributes: { id: '1', type: 'order.place', source: '/shop' },
      deliveryCount,
      ack: () => void calls.push({ call: 'ack' }),
      nack: (error, { retryAfter }) => void calls.push({ call: 'nack', error, retryAfter }),
    })
  return { runtime, logger, calls, deliver }
}

function deadLetterTo(answer: (letters: readonly RawMessage[]) => Promise<readonly PublishResult[]>) {
  const letters: RawMessage[] = []
  const publisher: Publisher = {
    publish(_destination, messages) {
      letters.push(...messages)
      return answer(messages)
    },
  }
  return { letters, deadLetter: { publisher, destination: 'orders.dead' } }
}

describe('a receiver', () => {
  it('makes raw messages with the delivery count and the broker behind ack and nack', async () => {
    const { deliver, calls } = open()
    const acked = deliver(3)
    expect(acked.deliveryCount).toBe(3)
    expect(acked.id).toBe('1')
    await acked.ack()
    await deliver().nack(failure, { retryAfter: 9 })
    expect(calls).toEqual([{ call: 'ack' }, { call: 'nack', error: failure, retryAfter: 9 }])
  })

  it('sends a rejected message to the dead letter and acks it after the confirmation', async () => {
    const order: string[] = []
    const { letters, deadLetter } = deadLetterTo(async () => {
      order.push(`published, ${world.calls.length} calls before`)
      return [{ ok: true }]
    })
    const world = open({ deadLetter })
    const message = world.deliver(1)
    expect(await message.reject(failure)).toBe(true)
    expect(order).toEqual(['published, 0 calls before'])
    expect(world.calls).toEqual([{ call: 'ack' }])
    const [letter] = letters
    expect(letter?.data).toBe(message.data)
    expect(letter?.attributes).toEqual({
      id: '1',
      type: 'order.place',
      source: '/shop',
      deadletterreason: 'cannot be handled',
      deadlettertime: '2026-01-01T00:00:00.000Z',
    })
    expect(world.runtime.timers).toBe(0)
  })

  it('tells the dead letter the causes too', async () => {
    const { letters, deadLetter } = deadLetterTo(async () => [{ ok: true }])
    const { deliver } = open({ deadLetter })
    await deliver(1).reject(
      new Error('Gave up after 10 attempts.', { cause: new Error('duplicate key', { cause: new Error('at the bottom') }) }),
    )
    expect(letters[0]?.attributes['deadletterreason']).toBe('Gave up after 10 attempts. Cause: duplicate key Cause: at the bottom')
  })

  it.each([
    ['answers that it failed', async () => [{ ok: false, error: failure }] as const],
    [
      'rejects',
      async () => {
        throw failure
      },
    ],
    ['answers with no result', async () => []],
  ] as const)('keeps the message with the broker when the dead letter %s', async (_how, answer) => {
    const { deadLetter } = deadLetterTo(answer)
    const { deliver, calls, logger } = open({ deadLetter })
    const message = deliver(1)
    await expect(message.reject(failure)).rejects.toThrow()
    expect(calls.map(({ call }) => call)).toEqual(['nack'])
    expect(calls[0]?.retryAfter).toBeGreaterThan(0)
    expect(logger.at('error')).toHaveLength(1)
    expect((await message.settled).failure).toBeDefined()
  })

  it('does not wait for ever for a dead letter that does not answer', async () => {
    const { deadLetter } = deadLetterTo(() => new Promise(() => {}))
    const { deliver, calls, runtime } = open({ deadLetter, deadLetterTimeout: 500 })
    const message = deliver(1)
    const rejected = message.reject(failure).catch((error: unknown) => error)
    await runtime.advance(499)
    expect(calls).toEqual([])
    await runtime.advance(1)
    expect(await rejected).toMatchObject({ code: 'ACKORD_PUBLISH_FAILED', message: expect.stringContaining('500 ms') })
    expect(calls.map(({ call }) => call)).toEqual(['nack'])
  })

  it("acks and drops with 'discard'", async () => {
    const { deliver, calls } = open({ deadLetter: 'discard' })
    await deliver(1).reject(failure)
    expect(calls).toEqual([{ call: 'ack' }])
  })

  it('ends the message for good where the broker can', async () => {
    const calls: string[] = []
    const receive = createReceiver({ deadLetter: 'discard' })
    const message = receive({
      data: new Uint8Array(),
      attributes: {},
      ack: () => void calls.push('ack'),
      nack: () => void calls.push('nack'),
      terminate: () => void calls.push('terminate'),
    })
    await message.reject(failure)
    expect(calls).toEqual(['terminate'])
  })

  it('without a dead letter nacks with a growing delay and warns once', async () => {
    const { deliver, calls, logger } = open()
    for (const deliveryCount of [1, 2, 5, 2000]) await deliver(deliveryCount).reject(failure)
    expect(calls.map(({ call }) => call)).toEqual(['nack', 'nack', 'nack', 'nack'])
    const delays = calls.map(({ retryAfter }) => retryAfter ?? 0)
    expect(delays[0]).toBeGreaterThanOrEqual(800)
    expect(delays).toEqual([...delays].sort((a, b) => a - b))
    expect(delays[3]).toBeLessThanOrEqual(72_000)
    expect(logger.at('warn')).toHaveLength(1)
    expect(logger.at('warn')[0]?.text).toMatch(/deadLetter/)
  })

  it('never puts the payload into logs', async () => {
    const { deadLetter } = deadLetterTo(async () => [])
    const { deliver, logger } = open({ deadLetter })
    await deliver(1)
      .reject(failure)
      .catch(() => {})
    expect(JSON.stringify(logger.lines)).not.toContain('{\\"n\\":1}')
  })

  it('refuses a dead letter that is none', () => {
    // What a JavaScript caller may pass.
    const wrong = [{ destination: 'x' }, 'orders.dead', 5] as unknown as ReceiverOptions['deadLetter'][]
    for (const deadLetter of wrong) expect(() => createReceiver({ deadLetter })).toThrow(/deadLetter must be/)
    expect(() => createReceiver({ deadLetterTimeout: 0 })).toThrow(/deadLetterTimeout/)
    expect(new Message(1).state).toBeUndefined()
  })
})
