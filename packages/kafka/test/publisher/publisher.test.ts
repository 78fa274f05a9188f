import { deferred, settlePromises, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type KafkaPublisherOptions, kafkaPublisher } from '../../src/index.ts'
import { FakeError, FakeKafka } from '../support/fake-kafka.ts'
import { event, never } from '../support/world.ts'

function setup(options: KafkaPublisherOptions = {}) {
  const kafka = new FakeKafka()
  const runtime = new VirtualRuntime()
  return { kafka, runtime, publisher: kafkaPublisher(kafka, { runtime, ...options }) }
}

const ids = (kafka: FakeKafka) => kafka.sent.map(({ records }) => records.map(({ headers }) => headers['ce_id']))
const named = (...names: readonly string[]) => names.map((id) => event(id))

describe('publish()', () => {
  it('sends one batch per topic, in order', async () => {
    const { kafka, publisher } = setup({ route: (destination, { id }) => `${destination}-${id?.[0]}` })

    expect(await publisher.publish('t', named('a1', 'b1', 'a2'), { signal: never })).toEqual([{ ok: true }, { ok: true }, { ok: true }])
    expect(kafka.sent.map(({ topic }) => topic)).toEqual(['t-a', 't-b'])
    expect(ids(kafka)).toEqual([['a1', 'a2'], ['b1']])
    expect(kafka.producers).toHaveLength(1)
  })

  it('finds the message that is too large, and confirms the others', async () => {
    const { kafka, publisher } = setup()
    kafka.onSend = (_topic, records) =>
      records.some(({ headers }) => headers['ce_id'] === 'bad') ? Promise.reject(new FakeError('message')) : Promise.resolve()

    const results = await publisher.publish('t', named('a', 'b', 'bad', 'd', 'e'), { signal: never })

    expect(results).toMatchObject([
      { ok: true },
      { ok: true },
      { ok: false, permanent: true, error: { retryable: false } },
      { ok: true },
      { ok: true },
    ])
    expect(results[2]).not.toHaveProperty('scope')
    expect(ids(kafka)).toEqual([['a', 'b', 'bad', 'd', 'e'], ['a', 'b', 'bad'], ['a', 'b'], ['bad'], ['d', 'e']])
  })

  it.each(['access', 'topic', 'other'] as const)('puts a fault of %s down to the destination', async (fault) => {
    const { kafka, publisher } = setup()
    kafka.onSend = () => Promise.reject(new FakeError(fault))

    expect(await publisher.publish('t', named('a', 'b'), { signal: never })).toMatchObject(
      [0, 1].map(() => ({ ok: false, scope: 'destination' })),
    )
    expect(kafka.sent).toHaveLength(1)
  })

  it('sends nothing after a failure of the destination', async () => {
    const { kafka, publisher } = setup()
    let sends = 0
    kafka.onSend = () => {
      sends += 1
      return Promise.reject(new FakeError(sends === 1 ? 'message' : 'other'))
    }

    const results = await publisher.publish('t', named('a', 'b', 'c', 'd'), { signal: never })

    expect(results).toMatchObject([0, 1, 2, 3].map(() => ({ ok: false, scope: 'destination' })))
    expect(ids(kafka)).toEqual([
      ['a', 'b', 'c', 'd'],
      ['a', 'b'],
    ])
  })

  it('reports a producer that cannot connect, and reconnects at the next call', async () => {
    const { kafka, publisher } = setup()
    kafka.onConnect = () => Promise.reject(new Error('ECONNREFUSED'))
    expect(await publisher.publish('t', named('a'), { signal: never })).toMatchObject([{ ok: false, scope: 'destination' }])
    kafka.onConnect = () => Promise.resolve()

    expect(await publisher.publish('t', named('a'), { signal: never })).toEqual([{ ok: true }])
    expect(kafka.producers.map(({ closed }) => closed)).toEqual([true, false])
  })

  it('ends with the signal, for messages that were not confirmed', async () => {
    const stop = new AbortController()
    const { kafka, publisher } = setup({ route: (_destination, { id }) => id ?? '' })
    kafka.onSend = (topic) => (topic === 'slow' ? new Promise(() => {}) : Promise.resolve())
    const publishing = publisher.publish('t', named('slow', 'fast'), { signal: stop.signal })
    await settlePromises()
    stop.abort(new Error('too long'))

    expect(await publishing).toMatchObject([{ ok: false, scope: 'destination', error: { cause: { message: 'too long' } } }, { ok: true }])
    await expect(publisher.publish('t', named('a'), { signal: stop.signal })).rejects.toThrow('too long')
  })

  it('creates a new producer after an unanswered send, and closes the old one when its other sends have ended', async () => {
    const { kafka, runtime, publisher } = setup()
    const answers = [deferred(), deferred()]
    kafka.onSend = (_topic, records) => answers[Number(records[0]?.headers['ce_id'])]?.promise ?? Promise.resolve()
    const silence = new AbortController()
    const silent = publisher.publish('t', named('0'), { signal: silence.signal })
    const slow = publisher.publish('t', named('1'), { signal: never })
    await settlePromises()

    silence.abort(new Error('too late'))
    expect(await silent).toMatchObject([{ ok: false }])
    expect(await publisher.publish('t', named('a'), { signal: never })).toEqual([{ ok: true }])
    expect(kafka.producers).toHaveLength(2)
    expect(kafka.producers.map(({ closed }) => closed)).toEqual([false, false])

    answers[1]?.resolve()
    expect(await slow).toEqual([{ ok: true }])
    // One send never ends: closing waits for it no longer than for an answer.
    await runtime.advance(5000)
    expect(kafka.producers.map(({ closed }) => closed)).toEqual([true, false])
    await publisher[Symbol.asyncDispose]?.()
    expect(kafka.producers.map(({ closed }) => closed)).toEqual([true, true])
    expect(runtime.timers).toBe(0)
  })

  it('keeps a connection that takes longer than the time limit of a call for the next call, which alone sends', async () => {
    const { kafka, publisher } = setup()
    const connected = deferred()
    kafka.onConnect = () => connected.promise
    const short = new AbortController()
    const first = publisher.publish('t', named('a'), { signal: short.signal })
    await settlePromises()
    short.abort(new Error('too late'))
    expect(await first).toMatchObject([{ ok: false, scope: 'destination' }])
    const second = publisher.publish('t', named('b'), { signal: never })
    connected.resolve()

    expect(await second).toEqual([{ ok: true }])
    expect(kafka.producers).toHaveLength(1)
    expect(ids(kafka)).toEqual([['b']])
  })

  it('does not wait forever for a connection without answers', async () => {
    const { kafka, runtime, publisher } = setup()
    const connected = deferred()
    kafka.onConnect = () => connected.promise
    const long = new AbortController()
    const first = publisher.publish('t', named('a'), { signal: long.signal })
    await runtime.advance(10_000)
    long.abort(new Error('too late'))
    expect(await first).toMatchObject([{ ok: false }])
    kafka.onConnect = () => Promise.resolve()

    expect(await publisher.publish('t', named('b'), { signal: never })).toEqual([{ ok: true }])
    connected.resolve()
    await settlePromises()
    expect(kafka.producers.map(({ closed }) => closed)).toEqual([true, false])
    expect(ids(kafka)).toEqual([['b']])
  })

  it.each(['message', 'access', 'topic', 'other'] as const)('connects again after a fault of %s while it connected', async (fault) => {
    const { kafka, publisher } = setup()
    kafka.onConnect = () => Promise.reject(new FakeError(fault))
    expect(await publisher.publish('t', named('a'), { signal: never })).toMatchObject([{ ok: false }])
    kafka.onConnect = () => Promise.resolve()

    expect(await publisher.publish('t', named('a'), { signal: never })).toEqual([{ ok: true }])
    expect(kafka.producers.map(({ closed }) => closed)).toEqual([true, false])
  })

  it('fails permanently for messages that cannot be written, and sends the rest', async () => {
    const { kafka, publisher } = setup()
    const wrong = [event('x', { when: new Date(Number.NaN) }), Object.assign(event('y'), { data: 'text' })]

    expect(await publisher.publish('t', [...wrong, event('a')], { signal: never })).toMatchObject([
      { permanent: true },
      { permanent: true },
      { ok: true },
    ])
    expect(ids(kafka)).toEqual([['a']])
  })

  it('names the message for which no route was found', async () => {
    const { publisher } = setup({ route: (_destination, { id }) => (id === 'a' ? '' : 't') })

    expect(await publisher.publish('t', named('a', 'b'), { signal: never })).toMatchObject([
      { ok: false, error: { cause: { code: 'ACKORD_INVALID_OPTION' } } },
      { ok: true },
    ])
  })
})

describe('disposing', () => {
  it('waits for sends in flight, then closes the producer', async () => {
    const { kafka, runtime, publisher } = setup()
    const sent = deferred()
    kafka.onSend = () => sent.promise
    const publishing = publisher.publish('t', named('a'), { signal: never })
    await settlePromises()
    const disposing = publisher[Symbol.asyncDispose]()
    sent.resolve()
    await disposing

    expect(await publishing).toEqual([{ ok: true }])
    expect(kafka.producers).toEqual([{ closed: true }])
    await expect(publisher.publish('t', named('a'), { signal: never })).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(runtime.timers).toBe(0)
  })

  it('does not wait forever', async () => {
    const { kafka, runtime, publisher } = setup()
    kafka.onSend = () => new Promise(() => {})
    void publisher.publish('t', named('a'), { signal: never })
    await settlePromises()
    const disposing = publisher[Symbol.asyncDispose]()
    await runtime.advance(5000)
    await disposing

    expect(kafka.producers).toEqual([{ closed: true }])
  })

  it('opens nothing for calls that continue after it has ended', async () => {
    const { kafka, runtime, publisher } = setup()
    const answers = [deferred(), deferred()]
    kafka.onSend = (_topic, records) => answers[Number(records[0]?.headers['ce_id'])]?.promise ?? Promise.resolve()
    const refused = publisher.publish('t', named('0', 'x'), { signal: never })
    const silent = publisher.publish('t', named('1'), { signal: never })
    await settlePromises()
    const disposing = publisher[Symbol.asyncDispose]()
    await runtime.advance(5000)
    await disposing
    answers[1]?.reject(new Error('closed'))
    await silent
    answers[0]?.reject(new FakeError('message'))

    expect(await refused).toMatchObject([{ ok: false }, { ok: false }])
    expect(kafka.producers).toEqual([{ closed: true }])
    expect(runtime.timers).toBe(0)
  })
})
