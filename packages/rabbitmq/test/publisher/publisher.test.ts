import { Message, type Publisher, type RawMessage, silentLogger } from '@ackord/core'
import { settlePromises, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type RabbitmqPublisherOptions, rabbitmqPublisher } from '../../src/index.ts'
import { FakeConnection } from '../support/fake-connection.ts'

const signal = new AbortController().signal
const message = (id: string): RawMessage => new Message(new Uint8Array(), { id })

function setup(options: RabbitmqPublisherOptions = {}): {
  readonly connection: FakeConnection
  readonly runtime: VirtualRuntime
  readonly publisher: Publisher & AsyncDisposable
} {
  const connection = new FakeConnection()
  const runtime = new VirtualRuntime()
  return { connection, runtime, publisher: rabbitmqPublisher(connection, { runtime, logger: silentLogger, ...options }) }
}

describe('publish()', () => {
  it('distinguishes copies of one message when one of them is returned', async () => {
    const { connection, publisher } = setup()
    const first = publisher.publish('orders', [message('a'), message('a')], { signal })
    const second = publisher.publish('orders', [message('a')], { signal })
    await settlePromises()
    const { last } = connection
    const returned = last.published[1]

    last.emit('return', { properties: { messageId: 'a', headers: returned?.headers } })
    for (const { confirm } of last.published) confirm(null)

    expect(await first).toMatchObject([{ ok: true }, { ok: false, scope: 'destination' }])
    expect(await second).toEqual([{ ok: true }])
  })

  it('ignores unknown returned messages', async () => {
    const { connection, publisher } = setup()
    const publishing = publisher.publish('orders', [message('a')], { signal })
    await settlePromises()

    connection.last.emit('return', { properties: { headers: undefined } })
    connection.last.emit('return', { properties: { headers: { 'x-ackord-key': 'x' } } })
    connection.last.published[0]?.confirm(null)

    expect(await publishing).toEqual([{ ok: true }])
  })

  it('stops sending while the write buffer is full, and continues on drain', async () => {
    const { connection, publisher } = setup()
    const first = publisher.publish('orders', [message('0')], { signal })
    await settlePromises()
    const { last } = connection
    last.room = false
    const publishing = publisher.publish('orders', ['a', 'b', 'c'].map(message), { signal })
    const more = publisher.publish('orders', ['d', 'e'].map(message), { signal })
    await settlePromises()
    expect(last.published.map(({ headers }) => headers['cloudEvents:id'])).toEqual(['0', 'a'])

    last.room = true
    last.emit('drain')
    await settlePromises()
    expect(last.published).toHaveLength(6)
    for (const { confirm } of last.published) confirm(null)

    expect((await Promise.all([first, publishing, more])).flat()).toEqual(Array.from({ length: 6 }, () => ({ ok: true })))
  })

  it('that is aborted while the write buffer is full sends nothing more', async () => {
    const { connection, publisher } = setup()
    const stop = new AbortController()
    const begun = publisher.publish('orders', [message('0')], { signal })
    await settlePromises()
    const { last } = connection
    last.room = false
    const publishing = publisher.publish('orders', ['a', 'b'].map(message), { signal: stop.signal })
    await settlePromises()

    stop.abort(new Error('too long'))
    expect(await publishing).toMatchObject([
      { ok: false, scope: 'destination' },
      { ok: false, scope: 'destination' },
    ])
    last.room = true
    last.emit('drain')
    await settlePromises()
    expect(last.published).toHaveLength(2)
    // Late confirms: one of them for a message that was already given up.
    for (const { confirm } of last.published) confirm(null)
    expect(await begun).toEqual([{ ok: true }])
  })

  it('does not mistake a lost channel for a nack, although amqplib calls back for both', async () => {
    const { connection, publisher } = setup()
    const [lost, refused] = [message('lost'), message('refused')]
    const publishing = publisher.publish('orders', [lost, refused], { signal })
    await settlePromises()
    const { last } = connection

    last.published[1]?.confirm(new Error('message nacked'))
    last.lose()

    expect(await publishing).toMatchObject([
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('was lost') } },
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('did not accept') } },
    ])
  })

  it('fails the rest when the channel is lost in the middle', async () => {
    const { connection, publisher } = setup()
    const warmUp = publisher.publish('orders', [message('0')], { signal })
    await settlePromises()
    const { last } = connection
    last.published[0]?.confirm(null)
    await warmUp
    last.room = false
    const publishing = publisher.publish('orders', ['a', 'b'].map(message), { signal })
    await settlePromises()
    expect(last.published).toHaveLength(2)

    last.lose(Object.assign(new Error("NOT_FOUND - no exchange 'x'"), { code: 404 }))

    expect(await publishing).toMatchObject([
      { ok: false, scope: 'destination' },
      { ok: false, scope: 'destination' },
    ])
    expect(last.published).toHaveLength(2)
  })

  it('waits for a connection, at most for connectTimeout, and uses the channel that comes later', async () => {
    const { connection, runtime, publisher } = setup({ connectTimeout: 3000 })
    connection.outcomes.push('hang')
    const [early, late] = [
      publisher.publish('orders', [message('a')], { signal }),
      runtime.advance(2000).then(() => publisher.publish('orders', [message('b')], { signal })),
    ]
    await runtime.advance(3000)
    expect(await early).toMatchObject([
      { ok: false, scope: 'destination', error: { cause: { message: expect.stringContaining('3000 ms') } } },
    ])

    connection.hanging[0]?.resolve(await connection.createChannel())
    await settlePromises()
    connection.last.published[0]?.confirm(null)

    expect(await late).toEqual([{ ok: true }])
    expect(connection.channels).toHaveLength(1)
    expect(runtime.timers).toBe(0)
  })

  it('opens another channel after one that could not be opened', async () => {
    const { connection, publisher } = setup()
    connection.outcomes.push(new Error('no channel'))
    expect(await publisher.publish('orders', [message('a')], { signal })).toMatchObject([
      { ok: false, scope: 'destination', error: { cause: { message: 'no channel' } } },
    ])

    const publishing = publisher.publish('orders', [message('a')], { signal })
    await settlePromises()
    connection.last.published[0]?.confirm(null)

    expect(await publishing).toEqual([{ ok: true }])
  })

  it('opens another channel after one that was closed before it could listen', async () => {
    const { connection, publisher } = setup()
    const first = publisher.publish('orders', [message('a')], { signal })
    await settlePromises()
    connection.last.refusal = Object.assign(new Error('Channel closed'), { name: 'IllegalOperationError' })
    const refused = publisher.publish('orders', ['b', 'c'].map(message), { signal })
    const failure = { ok: false, scope: 'destination' }
    expect([await first, await refused]).toMatchObject([[failure], [failure, failure]])

    const publishing = publisher.publish('orders', [message('b')], { signal })
    await settlePromises()
    connection.last.published[0]?.confirm(null)

    expect(await publishing).toEqual([{ ok: true }])
    expect(connection.channels).toHaveLength(2)
  })

  it('fails permanently with an attribute that is an invalid date', async () => {
    const { publisher } = setup()
    const wrong = new Message(new Uint8Array(), { id: 'a', when: new Date(Number.NaN) })

    expect(await publisher.publish('orders', [wrong], { signal })).toMatchObject([{ ok: false, permanent: true }])
  })

  it('names the message for which no route was found', async () => {
    const { connection, publisher } = setup({
      route: (_destination, { id }) => {
        if (id === 'b') throw new Error('no route')
        return id === 'c' ? (undefined as never) : { exchange: 'events', routingKey: 'x' }
      },
    })
    const publishing = publisher.publish('any', ['a', 'b', 'c'].map(message), { signal })
    await settlePromises()
    connection.last.published[0]?.confirm(null)

    expect(await publishing).toMatchObject([{ ok: true }, { ok: false, error: { cause: { message: 'no route' } } }, { ok: false }])
  })
})

describe('disposing', () => {
  it('waits forever neither for confirms nor for a connection', async () => {
    const { connection, runtime, publisher } = setup({ route: (destination) => ({ exchange: destination, routingKey: '' }) })
    const unconfirmed = publisher.publish('one', [message('a')], { signal })
    await settlePromises()
    connection.outcomes.push('hang')
    const unconnected = publisher.publish('two', [message('b')], { signal })

    const disposing = publisher[Symbol.asyncDispose]()
    await runtime.advance(10_000)
    await disposing

    expect(await unconfirmed).toMatchObject([{ ok: false, scope: 'destination' }])
    expect(await unconnected).toMatchObject([{ ok: false, scope: 'destination' }])
    const late = await connection.createChannel()
    connection.hanging[0]?.resolve(late)
    await settlePromises()
    expect(late.closed).toBe(true)
    expect(runtime.timers).toBe(0)
  })
})
