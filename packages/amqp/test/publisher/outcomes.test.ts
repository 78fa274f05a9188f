import type { PublishResult } from '@ackord/core'
import { recordingLogger } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type AmqpPublisherOptions, amqpPublisher } from '../../src/index.ts'
import { refuse, type StandInBroker, startStandInBroker } from '../support/stand-in-broker.ts'
import { closeConnection, event, never, open } from '../support/world.ts'

async function withPublisher<T>(
  broker: StandInBroker,
  options: AmqpPublisherOptions,
  use: (publish: (...ids: string[]) => Promise<readonly PublishResult[]>) => Promise<T>,
): Promise<T> {
  const connection = open(broker.url)
  const publisher = amqpPublisher(connection, { logger: recordingLogger(), ...options })
  try {
    return await use(
      async (...ids) =>
        await publisher.publish(
          'orders',
          ids.map((id) => event(id)),
          { signal: never },
        ),
    )
  } finally {
    await publisher.close()
    await closeConnection(connection)
  }
}

interface Transfer {
  readonly delivery: {
    accept(): void
    release(fields?: object): void
    reject(error?: object): void
    update(settled: boolean, state?: unknown): void
  }
}

const refusedWith = (condition: string) => (transfer: Transfer) => transfer.delivery.reject({ condition, description: 'it says so' })

describe('the outcome of a message', () => {
  it.concurrent.each<[string, (transfer: Transfer) => void, object]>([
    ['accepted', ({ delivery }) => delivery.accept(), { ok: true }],
    ['released', ({ delivery }) => delivery.release(), { ok: false, scope: 'destination' }],
    ['modified', ({ delivery }) => delivery.release({ delivery_failed: true }), { ok: false, scope: 'destination' }],
    ['rejected without a reason', ({ delivery }) => delivery.reject(), { ok: false, scope: 'destination' }],
    ['settled without an outcome', ({ delivery }) => delivery.update(true), { ok: false, scope: 'destination' }],
    ['rejected, the queue is full', refusedWith('amqp:resource-limit-exceeded'), { ok: false, scope: 'destination' }],
    ['rejected, the server is busy', refusedWith('com.microsoft:server-busy'), { ok: false, scope: 'destination' }],
    ['rejected, it cannot be decoded', refusedWith('amqp:decode-error'), { ok: false, permanent: true }],
    ['rejected, it is too large', refusedWith('amqp:link:message-size-exceeded'), { ok: false, permanent: true }],
    ['rejected for an unknown reason', refusedWith('example:full-moon'), { ok: false }],
  ])('%s', async (_title, answer, expected) => {
    await using broker = await startStandInBroker()
    broker.container.on('message', (context) => answer(context as unknown as Transfer))
    const [result] = await withPublisher(broker, {}, (publish) => publish('a'))
    expect(result).toMatchObject(expected)
    if (!('scope' in expected)) expect(result).not.toHaveProperty('scope')
    if (!('permanent' in expected)) expect(result).not.toHaveProperty('permanent')
  })

  it.concurrent('is that of each message of a call', async () => {
    await using broker = await startStandInBroker()
    // rhea would write unlike outcomes of one tick as one range.
    let before: Promise<void> = Promise.resolve()
    broker.container.on('message', ({ delivery, message }) => {
      before = before.then(async () => {
        await new Promise(setImmediate)
        if (message?.message_id === 'bad') delivery?.reject({ condition: 'amqp:decode-error', description: 'bad' })
        else delivery?.accept()
      })
    })
    const results = await withPublisher(broker, {}, (publish) => publish('a', 'bad', 'c'))
    expect(results).toMatchObject([{ ok: true }, { ok: false, permanent: true }, { ok: true }])
  })

  it.concurrent('released is the fault of the message where addresses differ by message', async () => {
    await using broker = await startStandInBroker()
    broker.container.on('message', ({ delivery }) => delivery?.release())
    const [result] = await withPublisher(broker, { address: (destination) => `/exchanges/e/${destination}` }, (publish) => publish('a'))
    expect(result).toMatchObject({ ok: false, scope: 'record' })
  })
})

describe('a link that the broker', () => {
  it.concurrent.each(['amqp:not-found', 'amqp:unauthorized-access', 'amqp:resource-limit-exceeded', 'amqp:not-allowed'])(
    'refuses with %s is the fault of the destination, and the next call attaches another one',
    async (condition) => {
      await using broker = await startStandInBroker()
      let attached = 0
      broker.container.on('receiver_open', ({ receiver }) => {
        attached += 1
        if (attached === 1 && receiver !== undefined) refuse(receiver, condition, 'not this one')
      })
      broker.container.on('message', ({ delivery }) => delivery?.accept())
      await withPublisher(broker, {}, async (publish) => {
        const [refused] = await publish('a')
        expect(refused).toMatchObject({ ok: false, scope: 'destination', error: { message: expect.stringContaining(condition) } })
        expect(refused).not.toHaveProperty('permanent')
        expect(await publish('a')).toEqual([{ ok: true }])
      })
      expect(attached).toBe(2)
    },
  )

  it.concurrent('detaches before it has answered fails the messages on their way, and the next call attaches another one', async () => {
    await using broker = await startStandInBroker()
    let received = 0
    broker.container.on('message', ({ delivery, receiver }) => {
      received += 1
      if (received === 1) receiver?.close({ condition: 'amqp:resource-deleted', description: 'the queue is gone' })
      else delivery?.accept()
    })
    await withPublisher(broker, {}, async (publish) => {
      expect(await publish('a')).toMatchObject([
        { ok: false, scope: 'destination', error: { message: expect.stringContaining('the queue is gone') } },
      ])
      expect(await publish('a')).toEqual([{ ok: true }])
    })
  })
})

describe('a publisher with many addresses', () => {
  it.concurrent('closes links that are not in use, because each needs a session', async () => {
    await using broker = await startStandInBroker()
    let attached = 0
    let most = 0
    broker.container.on('receiver_open', () => {
      attached += 1
      most = Math.max(most, attached)
    })
    broker.container.on('receiver_close', () => {
      attached -= 1
    })
    broker.container.on('message', ({ delivery }) => delivery?.accept())
    await withPublisher(broker, { address: (_, { id }) => `queue-${id}` }, async (publish) => {
      for (let count = 0; count < 80; count += 1) expect(await publish(`${count}`)).toEqual([{ ok: true }])
    })
    expect(most).toBeGreaterThan(30)
    expect(most).toBeLessThan(40)
  })
})

describe('a broker', () => {
  it.concurrent('without credit is waited for until the signal is aborted, and gets nothing that was aborted', async () => {
    await using broker = await startStandInBroker({ receiver: { credit_window: 0 } })
    const got: unknown[] = []
    broker.container.on('message', ({ message, delivery }) => {
      got.push(message?.message_id)
      delivery?.accept()
    })
    const attached = new Promise<{ add_credit(credit: number): void }>((resolve) => {
      broker.container.on('receiver_open', ({ receiver }) => receiver !== undefined && resolve(receiver))
    })
    const connection = open(broker.url)
    const publisher = amqpPublisher(connection, { logger: recordingLogger() })
    const stop = new AbortController()
    const first = publisher.publish('orders', [event('a')], { signal: stop.signal })
    const second = publisher.publish('orders', [event('b')], { signal: never })
    const link = await attached
    stop.abort()
    expect(await first).toMatchObject([{ ok: false }])
    link.add_credit(1)
    expect(await second).toEqual([{ ok: true }])
    expect(got).toEqual(['b'])
    await publisher.close()
    await closeConnection(connection)
  })

  it.concurrent('that limits the size of a message is not sent a larger one', async () => {
    await using broker = await startStandInBroker({ receiver: { max_message_size: 2000 } })
    broker.container.on('message', ({ delivery }) => delivery?.accept())
    const results = await withPublisher(broker, {}, (publish) => publish('a', 'x'.repeat(3000), 'c'))
    expect(results).toMatchObject([
      { ok: true },
      { ok: false, permanent: true, error: { message: expect.stringContaining('larger than the broker accepts: 2000 bytes') } },
      { ok: true },
    ])
  })

  it.concurrent('that never answers does not hold a publish for longer than connectTimeout', async () => {
    const connection = open('amqp://guest:guest@127.0.0.1:1')
    const publisher = amqpPublisher(connection, { logger: recordingLogger(), connectTimeout: 20 })
    expect(await publisher.publish('orders', [event('a')], { signal: never })).toMatchObject([
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('no connection') } },
    ])
    await publisher.close()
    await closeConnection(connection)
  })
})
