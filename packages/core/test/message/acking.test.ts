import { describe, expect, it } from 'vitest'
import { isAckordError } from '../../src/errors.ts'
import { contextKey } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { trackedMessage } from '../support/tracked-message.ts'

const failure = new Error('failed')

describe('acking', () => {
  it.each([
    { calls: ['ack'], answers: [true], seen: ['ack'] },
    { calls: ['nack'], answers: [true], seen: ['nack'] },
    { calls: ['reject'], answers: [true], seen: ['reject'] },
    { calls: ['ack', 'ack'], answers: [true, true], seen: ['ack'] },
    { calls: ['nack', 'nack'], answers: [true, true], seen: ['nack'] },
    { calls: ['reject', 'reject'], answers: [true, true], seen: ['reject'] },
    { calls: ['ack', 'nack'], answers: [true, false], seen: ['ack'] },
    { calls: ['nack', 'ack'], answers: [true, false], seen: ['nack'] },
    { calls: ['reject', 'ack', 'nack'], answers: [true, false, false], seen: ['reject'] },
    { calls: ['ack', 'reject'], answers: [true, false], seen: ['ack'] },
  ] as const)('the first of $calls decides', async ({ calls, answers, seen }) => {
    const { message, calls: broker } = trackedMessage('data')
    const got: boolean[] = []
    for (const call of calls) got.push(await message[call](failure))
    expect(got).toEqual(answers)
    expect(broker.map(({ verdict }) => verdict)).toEqual(seen)
  })

  it('has no error while pending and once acked, and the first one once nacked', async () => {
    const acked = trackedMessage('data').message
    expect(acked.error).toBeUndefined()
    await acked.ack()
    expect(acked.error).toBeUndefined()

    const nacked = trackedMessage('data').message
    await nacked.nack(failure)
    await nacked.nack(new Error('second'))
    expect(nacked.error).toBe(failure)
  })

  it('adds a reason to a nack without an error, so that it cannot be mistaken for an ack', async () => {
    for (const nothing of [undefined, null]) {
      const { message, calls } = trackedMessage('data')
      expect(await message.nack(nothing)).toBe(true)
      expect(await message.ack()).toBe(false)
      expect(isAckordError(message.error, 'ACKORD_NACKED')).toBe(true)
      expect(calls[0]?.error).toBe(message.error)
      expect(message.state).toBe('nacked')
    }
  })

  it('adds a reason to a reject without an error', async () => {
    const { message } = trackedMessage('data')
    await message.reject(undefined)
    expect(isAckordError(message.error, 'ACKORD_REJECTED')).toBe(true)
  })

  it('passes retryAfter to the broker and rejects an invalid duration', async () => {
    const { message, calls } = trackedMessage('data')
    await expect(message.nack(failure, { retryAfter: -1 })).rejects.toThrow(/retryAfter must be milliseconds/)
    await expect(message.nack(failure, { retryAfter: Number.NaN })).rejects.toThrow(/retryAfter/)
    await expect(message.nack(failure, { retryAfter: Infinity })).rejects.toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    expect(calls).toEqual([])
    await message.nack(failure, { retryAfter: 1500 })
    expect(calls).toEqual([{ verdict: 'nack', error: failure, options: { retryAfter: 1500 } }])
  })

  it('resolves to false and never settles without acking', async () => {
    const message = new Message('data')
    expect(await message.ack()).toBe(false)
    expect(await message.nack(failure)).toBe(false)
    expect(await message.reject(failure)).toBe(false)
    expect(message.error).toBeUndefined()
    expect(message.state).toBeUndefined()
    let settled = false
    void message.settled.then(() => {
      settled = true
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(settled).toBe(false)
  })

  it('calls the broker once for a hundred concurrent acks', async () => {
    const { message, calls } = trackedMessage('data', {}, { answer: async () => {} })
    const answers = await Promise.all(Array.from({ length: 100 }, () => message.ack()))
    expect(answers).toEqual(Array.from({ length: 100 }, () => true))
    expect(calls).toHaveLength(1)
  })

  it('calls exactly one callback when ack, nack and reject race', async () => {
    for (let round = 0; round < 100; round += 1) {
      const { message, calls } = trackedMessage('data', {}, { answer: async () => {} })
      const order = [() => message.ack(), () => message.nack(failure), () => message.reject(failure)]
      const rotated = [...order.slice(round % 3), ...order.slice(0, round % 3)]
      const answers = await Promise.all(rotated.map((call) => call()))
      expect(answers).toEqual([true, false, false])
      expect(calls).toHaveLength(1)
    }
  })

  it('lets a callback settle its own message without a deadlock', async () => {
    const answers: boolean[] = []
    const message: Message<string> = new Message(
      'data',
      {},
      {
        acking: {
          async ack() {
            answers.push(await message.ack(), await message.nack(failure))
          },
          nack() {},
          reject() {},
        },
      },
    )
    expect(await message.ack()).toBe(true)
    expect(answers).toEqual([true, false])
  })

  it('settles only after the broker has answered', async () => {
    let answer = () => {}
    const { message } = trackedMessage('data', {}, { answer: () => new Promise<void>((resolve) => (answer = resolve)) })
    const acked = message.ack()
    const events: string[] = []
    void message.settled.then(() => events.push('settled'))
    await new Promise((resolve) => setImmediate(resolve))
    expect(events).toEqual([])
    expect(message.state).toBe('acked')
    answer()
    expect(await acked).toBe(true)
    expect(await message.settled).toEqual({ verdict: 'acked', error: undefined, failure: undefined })
    expect(events).toEqual(['settled'])
  })

  it.each([
    [
      'throws',
      () => {
        throw failure
      },
    ],
    ['rejects', () => Promise.reject(failure)],
  ])(
    'reports an ack whose callback %s: the promise rejects, settled carries it, the callback is not called again',
    async (_how, answer) => {
      const { message, calls } = trackedMessage('data', {}, { answer })
      await expect(message.ack()).rejects.toBe(failure)
      expect(await message.settled).toEqual({ verdict: 'acked', error: undefined, failure })
      expect(await message.ack()).toBe(true)
      expect(await message.nack(failure)).toBe(false)
      expect(calls).toHaveLength(1)
    },
  )

  it('does not crash the process when a failing ack is not awaited', async () => {
    const unhandled: unknown[] = []
    const listen = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', listen)
    try {
      const { message } = trackedMessage('data', {}, { answer: () => Promise.reject(failure) })
      void message.ack()
      expect((await message.settled).failure).toBe(failure)
      await new Promise((resolve) => setImmediate(resolve))
      expect(unhandled).toEqual([])
    } finally {
      process.off('unhandledRejection', listen)
    }
  })

  it('is shared by copies: one settlement for all of them', async () => {
    const { message, calls } = trackedMessage('data', { id: '1' })
    const copy = message.copy(42)
    const other = message.withAttributes({ subject: 's' })
    expect(await copy.ack()).toBe(true)
    expect(await message.ack()).toBe(true)
    expect(await other.nack(failure)).toBe(false)
    expect(calls).toHaveLength(1)
    expect((await other.settled).verdict).toBe('acked')
  })
})

describe('fork', () => {
  it('acks the original when all forks are acked', async () => {
    const { message, calls } = trackedMessage('data')
    const [a, b, c] = message.fork(3)
    expect(await a?.ack()).toBe(true)
    expect(await b?.ack()).toBe(true)
    expect(calls).toEqual([])
    expect(message.state).toBe('pending')
    expect(await c?.ack()).toBe(true)
    expect(calls).toEqual([{ verdict: 'ack' }])
    expect((await a?.settled)?.verdict).toBe('acked')
  })

  it('counts messages, not calls: one fork acked twice does not stand in for its sibling', async () => {
    const { message, calls } = trackedMessage('data')
    const [a, b] = message.fork(2)
    await a?.ack()
    await a?.ack()
    await a?.copy('other data').ack()
    expect(calls).toEqual([])
    await b?.ack()
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it.each(['nack', 'reject'] as const)('lets the first %s decide for all', async (verdict) => {
    const { message, calls } = trackedMessage('data')
    const [a, b, c] = message.fork(3)
    await a?.ack()
    expect(await b?.[verdict](failure)).toBe(true)
    expect(calls.map((call) => call.verdict)).toEqual([verdict])
    expect(await c?.ack()).toBe(false)
    expect(await a?.ack()).toBe(false)
    expect(c?.error).toBe(failure)
    expect((await c?.settled)?.error).toBe(failure)
    expect(calls).toHaveLength(1)
  })

  it('does not let a fork revoke its own ack', async () => {
    const { message, calls } = trackedMessage('data')
    const [a] = message.fork(2)
    await a?.ack()
    expect(await a?.nack(failure)).toBe(false)
    expect(calls).toEqual([])
    expect(message.state).toBe('pending')
  })

  it('into one is the original in another object', async () => {
    const { message, calls } = trackedMessage('data')
    const [only] = message.fork(1)
    await only?.ack()
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('into none acks immediately, because nothing else would', async () => {
    const { message, calls } = trackedMessage('data')
    expect(message.fork(0)).toEqual([])
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('can be forked again', async () => {
    const { message, calls } = trackedMessage('data')
    const [a, b] = message.fork(2)
    const inner = a?.fork(2) ?? []
    await b?.ack()
    await inner[0]?.ack()
    expect(calls).toEqual([])
    await inner[1]?.ack()
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('does not wait for siblings when acked one after the other, and reports a broker failure to the last one', async () => {
    const { message } = trackedMessage('data', {}, { answer: () => Promise.reject(failure) })
    const [a, b] = message.fork(2)
    expect(await a?.ack()).toBe(true)
    await expect(b?.ack()).rejects.toBe(failure)
    expect((await a?.settled)?.failure).toBe(failure)
  })

  it('keeps data, attributes and values, and rejects an invalid count', () => {
    const key = contextKey<string>('tenant')
    const { message } = trackedMessage('data', { id: '1' })
    const [fork] = message.withValue(key, 'blue').fork(1)
    expect(fork?.data).toBe('data')
    expect(fork?.attributes).toEqual({ id: '1' })
    expect(fork?.value(key)).toBe('blue')
    for (const count of [-1, 1.5, Number.NaN]) expect(() => message.fork(count)).toThrow(/fork\(count\) must be a whole number/)
  })

  it('of a message without acking has none either', async () => {
    const forks = new Message('data').fork(2)
    expect(forks).toHaveLength(2)
    expect(await forks[0]?.ack()).toBe(false)
  })
})
