import { afterCommit, jsonMarshaler, Message, type Middleware, marshal, outside, Router, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import type { CrashTestLife } from '../../src/crash/in-process/crash-life.ts'
import { type CrashTestOptions, crashTest } from '../../src/crash/in-process/crash-test.ts'
import { MemoryStore, orderPlaced, orderRouter, placeOrder } from '../support/memory-orders.ts'

const message = { type: 'order.place', data: { orderId: 'o-1' } }

/** A service on a memory store, which outlives the service. */
function serviceOf(routerOf: (store: MemoryStore, life: CrashTestLife) => Router): CrashTestOptions['open'] {
  return async () => {
    const store = new MemoryStore()
    return {
      start: async (life) => ({ handle: (source) => routerOf(store, life).run(source), outbox: store.outbox }),
      state: () => store.executor().entries(),
    }
  }
}

function plainRouter(
  handle: (given: Message, life: CrashTestLife) => Promise<readonly Message[]>,
  life: CrashTestLife,
  ...use: Middleware[]
): Router {
  return new Router({ source: '/orders', logger: silentLogger })
    .use(...use)
    .handle({ type: 'order.place', handle: (given) => handle(given, life) })
}

const around = (store: MemoryStore) => store.transactional({ consumer: 'orders', destination: 'order-events' })

async function failureOf(open: CrashTestOptions['open'], options: Partial<CrashTestOptions> = {}): Promise<string> {
  return await crashTest({ open, message, patience: 2000, ...options }).then(
    () => expect.unreachable('It found nothing.'),
    (error: Error) => error.message,
  )
}

describe('crashTest', () => {
  it('takes a right handler through every point, and gives a table', async () => {
    const results = await crashTest({ open: serviceOf((store) => orderRouter(store)), message, name: 'orders' })
    expect(results.rows.map(({ scenario, result, note }) => [scenario, result, note])).toEqual([
      ['not killed', 'passed', undefined],
      ...['message.received', 'transaction.begun', 'inbox.recorded', 'message.handled', 'outbox.appended', 'transaction.beforeCommit'].map(
        (point) => [`killed at ${point}`, 'passed', undefined],
      ),
      ...['transaction.afterCommit', 'message.beforeAck', 'message.afterAck', 'relay.claimed'].map((point) => [
        `killed at ${point}`,
        'passed',
        undefined,
      ]),
      ['killed at relay.published', 'passed', '1 duplicate published'],
      ['killed at relay.beforeSettle', 'passed', '1 duplicate published'],
      ['killed at relay.afterSettle', 'passed', undefined],
    ])
    expect(results.format()).toContain('| crash test')
  })

  it('kills at the configured points', async () => {
    const open = serviceOf((store) => orderRouter(store))
    const results = await crashTest({ open, message, points: ['transaction.beforeCommit', 'message.beforeAck'] })
    expect(results.rows.map(({ scenario }) => scenario)).toEqual([
      'not killed',
      'killed at transaction.beforeCommit',
      'killed at message.beforeAck',
    ])
    await expect(crashTest({ open, message, points: ['nowhere'] })).rejects.toThrow(
      "The message does not reach 'nowhere'; it reaches message.received",
    )
  })

  it('finds a handler that writes past its transaction', async () => {
    const text = await failureOf(
      serviceOf((store, life) =>
        plainRouter(
          async () => {
            // Outside of every context there is no transaction, so this writes to the table directly.
            outside(() => placeOrder(store.executor(), 'o-1'))
            return [orderPlaced('o-1')]
          },
          life,
          around(store),
        ),
      ),
    )
    expect(text).toContain('killed at message.handled: the effect is [["o-1",2]], and without a crash it is [["o-1",1]].')
    expect(text).toContain('killed at transaction.beforeCommit: the effect is [["o-1",2]]')
    expect(text).not.toContain('killed at message.beforeAck:')
  })

  it('finds a handler that publishes by itself', async () => {
    const text = await failureOf(
      serviceOf((store, life) =>
        plainRouter(
          async () => {
            placeOrder(store.executor(), 'o-1')
            const event = new Message(
              { orderId: 'o-1' },
              { id: `${Math.random()}`, type: 'order.placed', source: '/orders', specversion: '1.0' },
            )
            await life.publisher.publish('order-events', [marshal(event, jsonMarshaler)], { signal: new AbortController().signal })
            return []
          },
          life,
          around(store),
        ),
      ),
    )
    expect(text).toMatch(
      /killed at message\.handled: events were published again under other ids: .*; 1 events were published before the transaction had committed\./,
    )
    expect(text).not.toMatch(/killed at message\.beforeAck: /)
  })

  it('finds a handler that publishes by itself under a fixed id, which hides the duplicates', async () => {
    const text = await failureOf(
      serviceOf((store, life) =>
        plainRouter(
          async () => {
            placeOrder(store.executor(), 'o-1')
            const event = new Message({ orderId: 'o-1' }, { id: 'e-1', type: 'order.placed', source: '/orders', specversion: '1.0' })
            await life.publisher.publish('order-events', [marshal(event, jsonMarshaler)], { signal: new AbortController().signal })
            return []
          },
          life,
          around(store),
        ),
      ),
    )
    expect(text).toContain('killed at transaction.beforeCommit: 1 events were published before the transaction had committed.')
  })

  it('finds a handler that publishes after the commit, and loses the event', async () => {
    const text = await failureOf(
      serviceOf((store, life) =>
        new Router({ logger: silentLogger }).use(around(store)).handle({
          type: 'order.place',
          async handle(_, context) {
            placeOrder(store.executor(), 'o-1')
            const event = new Message({ orderId: 'o-1' }, { id: 'e-1', type: 'order.placed', source: '/orders', specversion: '1.0' })
            afterCommit(context, async () => {
              await life.publisher.publish('order-events', [marshal(event, jsonMarshaler)], { signal: new AbortController().signal })
            })
            return []
          },
        }),
      ),
    )
    expect(text).toContain('killed at transaction.afterCommit: events are lost: {"type":"order.placed"')
  })

  it('finds a service without an inbox', async () => {
    const text = await failureOf(
      serviceOf((store, life) =>
        plainRouter(async () => {
          await store.write(async (transaction) => placeOrder(transaction, 'o-1'))
          return []
        }, life),
      ),
    )
    expect(text).toContain('killed at message.beforeAck: the effect is [["o-1",2]], and without a crash it is [["o-1",1]].')
    expect(text).toContain('| killed at message.received ')
  })

  it('finds a handler that acks before it is done', async () => {
    const text = await failureOf(
      serviceOf((store, life) =>
        plainRouter(async (given) => {
          await given.ack()
          await store.write(async (transaction) => placeOrder(transaction, 'o-1'))
          return []
        }, life),
      ),
    )
    expect(text).toContain('killed at transaction.beforeCommit: the effect is [], and without a crash it is [["o-1",1]].')
  })

  it('reports that the handler does not work, or that state() does not show its effect', async () => {
    const failing = serviceOf((_, life) => plainRouter(() => Promise.reject(new Error('broken')), life))
    expect(await failureOf(failing, { patience: 100 })).toContain('not killed: The message was nacked for 100 ms: Error: broken')
    const idle = serviceOf((_, life) => plainRouter(async () => [], life))
    expect(await failureOf(idle)).toContain('not killed: handling the message does not change the result of state(): []')
    const refusing = async () => ({ start: async () => ({ handle: async () => {} }), state: () => 0 })
    expect(await failureOf(refusing)).toContain('The source ended, and the message was not settled.')
  })

  it('reports that the service waits forever', async () => {
    const hanging = serviceOf((_, life) => plainRouter(() => new Promise(() => {}), life))
    expect(await failureOf(hanging, { patience: 20 })).toContain('not killed: The service did not end within 60 ms.')
  })

  it('closes each world, and calls the crash callbacks', async () => {
    const seen: string[] = []
    const open = serviceOf((store) => orderRouter(store))
    await crashTest({
      message,
      points: ['transaction.beforeCommit'],
      open: async () => {
        const world = await open()
        return {
          ...world,
          async start(life) {
            life.onCrash(() => {
              seen.push('crash')
              throw new Error('of no interest')
            })
            return { ...(await world.start(life)), close: async () => void seen.push('service closed') }
          },
          close: async () => void seen.push('world closed'),
        }
      },
    })
    expect(seen).toEqual(['service closed', 'world closed', 'crash', 'service closed', 'world closed'])
  })
})
