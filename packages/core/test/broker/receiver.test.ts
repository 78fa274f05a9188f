import { describe, expect, it } from 'vitest'
import type { Publisher, PublishResult } from '../../src/broker/publisher.ts'
import { createReceiver, type ReceiverOptions } from '../../src/broker/receiver.ts'
import type { Attributes } from '../../src/message/attributes.ts'
import { Message, type RawMessage } from '../../src/message/message.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

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

  it('names the destination that the message came from, whatever destination the message itself names', async () => {
    const { letters, deadLetter } = deadLetterTo(async () => [{ ok: true }])
    const runtime = new VirtualRuntime()
    const receive = createReceiver({ runtime, logger: recordingLogger(), deadLetter })
    const attributes = { id: '1', type: 'order.place', source: '/shop', deadletterdestination: 'elsewhere' }
    const delivery = { data: new Uint8Array(), attributes, ack() {}, nack() {} }
    const message = receive({ ...delivery, origin: 'orders' })
    expect(message.origin).toBe('orders')
    expect(message.withAttributes({ n: 1 }).copy('data').origin).toBe('orders')
    await message.reject(failure)
    await receive(delivery).reject(failure)
    expect(letters.map((letter) => letter.attributes['deadletterdestination'])).toEqual(['orders', undefined])
  })

  it('includes the causes in the dead letter', async () => {
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

  it('does not wait forever for a dead letter that does not answer', async () => {
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

  it('terminates the message permanently where the broker supports it', async () => {
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

  it('rejects an invalid dead letter', () => {
    // A JavaScript caller may pass anything.
    const wrong = [{ destination: 'x' }, 'orders.dead', 5] as unknown as ReceiverOptions['deadLetter'][]
    for (const deadLetter of wrong) expect(() => createReceiver({ deadLetter })).toThrow(/deadLetter must be/)
    expect(() => createReceiver({ deadLetterTimeout: 0 })).toThrow(/deadLetterTimeout/)
    expect(new Message(1).state).toBeUndefined()
  })
})

/** A broker that permanently refuses attributes and messages above its limits, as AMQP headers and `max_payload` do. */
function narrowBroker(limits: { readonly value?: number; readonly size?: number; readonly refuses?: (letter: RawMessage) => boolean }) {
  const { value = Infinity, size = Infinity, refuses = () => false } = limits
  const stored: RawMessage[] = []
  const tried: RawMessage[] = []
  const publisher: Publisher = {
    async publish(_destination, messages) {
      return messages.map((letter): PublishResult => {
        tried.push(letter)
        const entries = Object.entries(letter.attributes).map(([name, text]) => name.length + String(text).length)
        const total = entries.reduce((sum, length) => sum + length, letter.data.byteLength)
        if (Math.max(...entries) > value || total > size || refuses(letter)) {
          return { ok: false, error: new Error('it does not fit'), permanent: true }
        }
        stored.push(letter)
        return { ok: true }
      })
    },
  }
  return { stored, tried, deadLetter: { publisher, destination: 'orders.dead' } }
}

function envelopeOf(letter: RawMessage | undefined): Record<string, unknown> {
  return JSON.parse(new TextDecoder().decode(letter?.data)) as Record<string, unknown>
}

describe('a dead letter that cannot be written in the form of the message', () => {
  function receiveHostile(options: ReceiverOptions, data: Uint8Array, attributes: Attributes) {
    const runtime = new VirtualRuntime()
    const logger = recordingLogger()
    const calls: { call: string; retryAfter?: number | undefined }[] = []
    const message = createReceiver({ runtime, logger, ...options })({
      data,
      attributes,
      deliveryCount: 1,
      ack: () => void calls.push({ call: 'ack' }),
      nack: (_error, { retryAfter }) => void calls.push({ call: 'nack', retryAfter }),
    })
    return { message, calls, logger }
  }

  // A sender may set attributes to any value, including those that the types forbid.
  const hostile = JSON.parse(
    JSON.stringify({ id: 'h1', type: 'order.place', source: '/shop', note: 'n'.repeat(70_000), ['x'.repeat(300)]: '1', time: 'yesterday' }),
  ) as Attributes

  it('is an envelope that holds all attributes and all bytes', async () => {
    const { stored, deadLetter } = narrowBroker({ value: 1000 })
    const data = Uint8Array.of(0, 255, 10, 13, 128)
    const { message, calls } = receiveHostile({ deadLetter }, data, hostile)
    expect(await message.reject(failure)).toBe(true)
    expect(calls).toEqual([{ call: 'ack' }])
    expect(stored).toHaveLength(1)
    expect(stored[0]?.attributes).toMatchObject({ id: 'h1', source: '/shop', type: 'ackord.deadletter', deadletterform: 'envelope' })
    const envelope = envelopeOf(stored[0])
    expect(envelope).toMatchObject({ reason: 'cannot be handled', dataLength: 5, data_base64: Buffer.from(data).toString('base64') })
    expect(envelope['attributes']).toEqual(Object.entries(hostile).map(([name, value]) => ({ name, value })))
  })

  it('keeps all bytes where only the attributes exceed the size of a message', async () => {
    const data = new Uint8Array(100_000).fill(7)
    const { stored, deadLetter } = narrowBroker({ size: 100_200 })
    const { message, calls } = receiveHostile({ deadLetter }, data, hostile)
    await message.reject(failure)
    expect(calls).toEqual([{ call: 'ack' }])
    expect(stored[0]?.data).toEqual(data)
    expect(stored[0]?.attributes).toMatchObject({ id: 'h1', source: '/shop', type: 'order.place', deadletterform: 'bytes' })
  })

  it.each([99_000, 20_000, 2000])('is truncated to fit into %i bytes, and lists what is missing', async (size) => {
    const data = new Uint8Array(100_000).fill(7)
    const { stored, deadLetter } = narrowBroker({ size })
    const { message, calls } = receiveHostile({ deadLetter }, data, hostile)
    await message.reject(failure)
    expect(calls).toEqual([{ call: 'ack' }])
    const envelope = envelopeOf(stored[0])
    expect(envelope).toMatchObject({ reason: 'cannot be handled', dataLength: 100_000 })
    expect(Buffer.from(String(envelope['data_base64']), 'base64').byteLength).toBeLessThan(100_000)
    expect(envelope['attributes']).toContainEqual(expect.objectContaining({ name: 'note', length: 70_000 }))
  })

  it.each([20_000, 2000])('identifies the message in %i bytes too, however many attributes come first', async (size) => {
    const { stored, deadLetter } = narrowBroker({ size })
    const junk = Object.fromEntries(Array.from({ length: 2000 }, (_, index) => [`junk${index}`, 'j'.repeat(100)]))
    const { message } = receiveHostile({ deadLetter }, new Uint8Array(100_000), { ...junk, ...hostile })
    await message.reject(failure)
    const named = ['id', 'source', 'type'].map((name) => expect.objectContaining({ name }))
    expect(envelopeOf(stored[0])['attributes']).toEqual(expect.arrayContaining(named))
    expect(stored[0]?.attributes).toMatchObject({ id: 'h1', source: '/shop', deadletterform: 'envelope' })
  })

  it('has a deterministic id where the message has none that fits', async () => {
    const { stored, deadLetter } = narrowBroker({ value: 200 })
    for (const id of ['i'.repeat(5000), 'i'.repeat(5000), 'line\nbreak'.repeat(40)]) {
      const { message } = receiveHostile({ deadLetter }, new Uint8Array(), { ...hostile, id })
      await message.reject(failure)
    }
    const ids = stored.map((letter) => letter.id)
    expect(ids[0]).toMatch(/^sha256-[0-9a-f]{64}$/)
    expect(ids[1]).toBe(ids[0])
    expect(ids[2]).not.toBe(ids[0])
  })

  it('has a reason that is well-formed Unicode, wherever it is truncated', async () => {
    const { stored, deadLetter } = narrowBroker({})
    const { message } = receiveHostile({ deadLetter }, new Uint8Array(), hostile)
    await message.reject(new Error(`${'a'.repeat(999)}😀`))
    expect(String(stored[0]?.attributes['deadletterreason']).isWellFormed()).toBe(true)
  })

  it('is not tried in other forms while the dead letter is down', async () => {
    const { letters, deadLetter } = deadLetterTo(async () => [
      { ok: false, error: new Error('down'), permanent: true, scope: 'destination' },
    ])
    const { message, calls } = receiveHostile({ deadLetter }, new Uint8Array(), hostile)
    await expect(message.reject(failure)).rejects.toThrow()
    expect(letters).toHaveLength(1)
    expect(calls.map(({ call }) => call)).toEqual(['nack'])
  })
})

describe('a message that the dead letter refuses in every form', () => {
  function receiveRefused(options: ReceiverOptions = {}, park?: () => boolean) {
    const { tried, deadLetter } = narrowBroker({ refuses: () => true })
    const logger = recordingLogger()
    const calls: { call: string; retryAfter?: number | undefined }[] = []
    const message = createReceiver({ runtime: new VirtualRuntime(), logger, deadLetter, ...options })({
      data: new Uint8Array(100_000),
      attributes: { id: '1', type: 'order.place', source: '/shop' },
      deliveryCount: 1,
      ack: () => void calls.push({ call: 'ack' }),
      nack: (_error, { retryAfter }) => void calls.push({ call: 'nack', retryAfter }),
      ...(park === undefined ? {} : { park }),
    })
    return { message, calls, tried, logger }
  }

  it('is passed to onUndeliverable and then acked', async () => {
    const given: [string | undefined, unknown][] = []
    const { message, calls, tried, logger } = receiveRefused({
      onUndeliverable: (undelivered, error) => void given.push([undelivered.id, error]),
    })
    expect(await message.reject(failure)).toBe(true)
    expect(given).toEqual([['1', failure]])
    expect(calls).toEqual([{ call: 'ack' }])
    expect(tried.length).toBeLessThan(10)
    expect(logger.at('error')).toHaveLength(1)
  })

  it('is delivered again after ten minutes if onUndeliverable fails', async () => {
    const { message, calls } = receiveRefused({
      onUndeliverable: () => Promise.reject(new Error('the disk is full')),
    })
    await expect(message.reject(failure)).rejects.toThrow('the disk is full')
    expect(calls).toEqual([{ call: 'nack', retryAfter: 600_000 }])
  })

  it('is parked by the broker if the broker keeps parked messages', async () => {
    const { message, calls, logger } = receiveRefused({}, () => true)
    expect(await message.reject(failure)).toBe(true)
    expect(calls).toEqual([])
    expect(logger.at('error')).toHaveLength(1)
  })

  it.each([[undefined], [() => false]])('is delivered again after ten minutes where the broker would drop it', async (park) => {
    const { message, calls, logger } = receiveRefused({}, park)
    await expect(message.reject(failure)).rejects.toThrow(/every smaller form/)
    expect(calls).toEqual([{ call: 'nack', retryAfter: 600_000 }])
    expect(logger.at('error')[0]?.text).toMatch(/onUndeliverable/)
  })
})
