import { describe, expect, it } from 'vitest'
import { groupBy, inChunks } from '../../src/async/collections.ts'
import { createPublisher, type Outgoing, type PublisherDriver } from '../../src/broker/create-publisher.ts'
import { permanentFailure } from '../../src/broker/publish-failures.ts'
import { currentContext, enter, Message, type PublishResult, type RawMessage, rootContext } from '../../src/index.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'

const { signal } = new AbortController()
const ok: PublishResult = { ok: true }
const message = (id: string): RawMessage => new Message(new Uint8Array(), { id })

interface Sent {
  readonly id: string | undefined
  readonly topic: string
}

function open(overrides: Partial<PublisherDriver<Sent>> = {}) {
  const runtime = new VirtualRuntime()
  const sent: Outgoing<Sent>[] = []
  const log: string[] = []
  const publisher = createPublisher<Sent>({
    broker: 'Test',
    routeName: 'topic',
    runtime,
    route: (destination) => destination,
    write: ({ id }, topic) => ({ id, topic }),
    send: (messages) => void sent.push(...messages),
    close: async () => void log.push('close'),
    ...overrides,
  })
  return { runtime, publisher, sent, log }
}

describe('createPublisher()', () => {
  it('returns one result per message in their order, whatever the order in which they are settled', async () => {
    const { publisher, sent } = open()
    const publishing = publisher.publish('orders', ['a', 'b', 'c'].map(message), { signal })
    expect(sent.map(({ item }) => item)).toEqual(['a', 'b', 'c'].map((id) => ({ id, topic: 'orders' })))
    const failure = permanentFailure('too large')
    sent[2]?.settle(ok)
    sent[1]?.settle(failure)
    sent[0]?.settle(ok)
    expect(await publishing).toEqual([ok, failure, ok])
  })

  it('counts only the first result of a message', async () => {
    const { publisher, sent } = open()
    const publishing = publisher.publish('orders', ['a', 'b'].map(message), { signal })
    const failure = permanentFailure('too large')
    sent[0]?.settle(failure)
    sent[0]?.settle(ok)
    sent[1]?.settle(ok)
    expect(await publishing).toEqual([failure, ok])
  })

  it('fails a message that cannot be routed or written, and sends the others', async () => {
    const { publisher, sent } = open({
      route: (destination, { id }) => {
        if (id === 'unrouted') throw new Error('no route')
        return id === 'refused' ? permanentFailure('no such topic') : destination
      },
      write: ({ id }, topic) => {
        if (id === 'unwritable') throw new Error('no date')
        return id === 'large' ? permanentFailure('too large') : { id, topic }
      },
    })
    const wrong = new Message('text', { id: 'wrong' }) as unknown as RawMessage
    const messages = [...['unrouted', 'refused', 'unwritable', 'large'].map(message), wrong, message('a')]
    const publishing = publisher.publish('https://user:secret@example.com/orders', messages, { signal })
    for (const each of sent) each.settle(ok)
    const results = await publishing
    expect(results).toMatchObject([
      { ok: false, error: { cause: { message: 'no route' }, message: expect.stringContaining('Could not determine the topic') } },
      { ok: false, permanent: true, error: { message: 'no such topic' } },
      { ok: false, permanent: true, error: { cause: { message: 'no date' }, retryable: false } },
      { ok: false, permanent: true, error: { message: 'too large' } },
      { ok: false, permanent: true, error: { code: 'ACKORD_WRONG_DATA' } },
      { ok: true },
    ])
    expect(results[0]).not.toHaveProperty('permanent')
    expect(JSON.stringify(results.map((result) => (result.ok ? '' : String(result.error))))).not.toContain('secret')
  })

  it('sends nothing without messages, without a destination or after an abort', async () => {
    const { publisher, sent } = open()
    expect(await publisher.publish('orders', [], { signal })).toEqual([])
    await expect(publisher.publish('', [message('a')], { signal })).rejects.toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    const aborted = AbortSignal.abort(new Error('stopped'))
    await expect(publisher.publish('orders', [message('a')], { signal: aborted })).rejects.toThrow('stopped')
    expect(sent).toEqual([])
  })

  it('ends a call with its signal although the driver does not answer, and blames no message', async () => {
    let seen: AbortSignal | undefined
    const { publisher, sent } = open({
      send: (messages, options) => {
        sent.push(...messages)
        seen = options.signal
      },
    })
    const stop = new AbortController()
    const publishing = publisher.publish('orders', ['a', 'b'].map(message), { signal: stop.signal })
    sent[0]?.settle(ok)
    stop.abort(new Error('too late'))
    expect(await publishing).toMatchObject([ok, { ok: false, scope: 'destination', error: { cause: { message: 'too late' } } }])
    expect(seen?.aborted).toBe(true)
    sent[1]?.settle(ok)
    expect(await publishing).toMatchObject([ok, { ok: false }])
  })

  it.each(['throws', 'rejects'])('blames the destination for unsettled messages when send() %s', async (how) => {
    const { publisher } = open({
      send: ([first]) => {
        first?.settle(ok)
        if (how === 'throws') throw new Error('down')
        return Promise.reject(new Error('down'))
      },
    })
    expect(await publisher.publish('orders', ['a', 'b'].map(message), { signal })).toMatchObject([
      ok,
      { ok: false, scope: 'destination', error: { cause: { message: 'down' } } },
    ])
  })

  it('runs the driver outside of the context of the caller', async () => {
    const contexts: unknown[] = []
    const { publisher } = open({
      send: ([first]) => {
        contexts.push(currentContext())
        first?.settle(ok)
      },
    })
    await enter(rootContext(), () => publisher.publish('orders', [message('a')], { signal }))
    expect(contexts).toEqual([undefined])
  })

  it('refuses new calls when it is closed, waits for those in flight, then closes the driver, once', async () => {
    const { publisher, sent, log, runtime } = open()
    const publishing = publisher.publish('orders', [message('a')], { signal })
    const closing = Promise.all([publisher[Symbol.asyncDispose](), publisher[Symbol.asyncDispose]()])
    await expect(publisher.publish('orders', [message('b')], { signal })).rejects.toMatchObject({
      code: 'ACKORD_SHUTDOWN',
      message: 'The Test publisher is closed.',
    })
    await settlePromises()
    expect(log).toEqual([])
    sent[0]?.settle(ok)
    await closing
    expect(await publishing).toEqual([ok])
    expect(log).toEqual(['close'])
    expect(runtime.timers).toBe(0)
  })

  it('aborts the calls that are in flight when closeTimeout is over', async () => {
    const { publisher, runtime, log } = open({ closeTimeout: 3000 })
    const publishing = publisher.publish('orders', [message('a')], { signal })
    const closing = publisher[Symbol.asyncDispose]()
    await runtime.advance(3000)
    await closing
    expect(await publishing).toMatchObject([{ ok: false, scope: 'destination', error: { cause: { code: 'ACKORD_SHUTDOWN' } } }])
    expect(log).toEqual(['close'])
    expect(runtime.timers).toBe(0)
  })

  it('waits until the calls have ended with an infinite closeTimeout', async () => {
    const { publisher, runtime, sent, log } = open({ closeTimeout: Infinity })
    void publisher.publish('orders', [message('a')], { signal })
    const closing = publisher[Symbol.asyncDispose]()
    await runtime.advance(100_000)
    expect(log).toEqual([])
    sent[0]?.settle(ok)
    await closing
    expect(log).toEqual(['close'])
  })
})

describe('inChunks', () => {
  const chunks = (items: readonly number[], limits: { readonly count: number; readonly size: number }) =>
    Array.from(inChunks(items, limits, (size) => size))

  it('keeps the order and both limits', () => {
    expect(chunks([1, 2, 3, 4], { count: 3, size: 100 })).toEqual([[1, 2, 3], [4]])
    expect(chunks([4, 4, 2, 9], { count: 10, size: 8 })).toEqual([[4, 4], [2], [9]])
  })

  it('returns an item alone that is larger than the limit, and nothing for no items', () => {
    expect(chunks([1, 50, 1], { count: 10, size: 8 })).toEqual([[1], [50], [1]])
    expect(chunks([], { count: 10, size: 8 })).toEqual([])
  })
})

it('groupBy keeps the order of items and of keys', () => {
  expect([...groupBy(['b1', 'a1', 'b2'], (item) => item[0])]).toEqual([
    ['b', ['b1', 'b2']],
    ['a', ['a1']],
  ])
})
