import { jsonMarshaler, Message, marshal, type Publisher, silentLogger } from '@ackord/core'
import { sqlOutbox } from '@ackord/sql'
import { type CrashTestLife, type CrashTestOptions, crashTest } from '@ackord/testkit'
import { crashPoints } from '@ackord/testkit/suites'
import { describe, expect, it } from 'vitest'
import { type Handle, orderRouter, placeOrder, saveOrder } from './order-router.ts'
import { mariadbOrders, type OrdersKind, postgresOrders, sqliteOrders } from './sql-orders.ts'

function serviceOn<Client>(kind: OrdersKind<Client>, handlerOf: (life: CrashTestLife) => Handle<Client>): CrashTestOptions['open'] {
  return async () => {
    const home = await kind.open()
    return {
      async start(life) {
        const orders = await home.connect(life)
        const router = orderRouter(orders, handlerOf(life))
        return { handle: (source) => router.run(source), outbox: sqlOutbox(orders.database, { logger: silentLogger }), close: orders.close }
      },
      state: home.committed,
      close: () => home[Symbol.asyncDispose](),
    }
  }
}

async function publishPlaced(publisher: Publisher, orderId: string): Promise<void> {
  const attributes = { id: crypto.randomUUID(), type: 'order.placed', source: '/orders', specversion: '1.0' }
  await publisher.publish('order-events', [marshal(new Message({ orderId }, attributes), jsonMarshaler)], {
    signal: new AbortController().signal,
  })
}

function testCrashTest<Client>(kind: OrdersKind<Client>): void {
  /** Three points suffice to distinguish these handlers. */
  const points = ['message.handled', 'transaction.beforeCommit', 'message.beforeAck']

  async function failureOf(handlerOf: (life: CrashTestLife) => Handle<Client>): Promise<string> {
    return await crashTest({ open: serviceOn(kind, handlerOf), message: placeOrder, points }).then(
      () => expect.unreachable('It found nothing.'),
      (error: Error) => error.message,
    )
  }

  describe(`crashTest() on ${kind.name}`, () => {
    it('takes a right handler through every point', async () => {
      const results = await crashTest({ open: serviceOn(kind, () => saveOrder), message: placeOrder, name: kind.name })
      expect(results.rows.map(({ scenario }) => scenario)).toEqual(['not killed', ...crashPoints.map(({ name }) => `killed at ${name}`)])
      expect(results.rows.filter(({ note }) => note !== undefined).map(({ scenario, note }) => [scenario, note])).toEqual([
        ['killed at relay.published', '1 duplicate published'],
        ['killed at relay.beforeSettle', '1 duplicate published'],
      ])
    })

    it('finds a handler that publishes by itself', async () => {
      const text = await failureOf((life) => async (orders, orderId) => {
        await orders.insert(orders.database.executor(), orderId)
        await publishPlaced(life.publisher, orderId)
        return []
      })
      expect(text).toMatch(
        /killed at message\.handled: events were published again under other ids: .*published before the transaction had committed/,
      )
      expect(text).toMatch(/killed at transaction\.beforeCommit: events were published again/)
      expect(text).not.toMatch(/killed at message\.beforeAck: /)
    })
  })
}

testCrashTest(postgresOrders)
testCrashTest(mariadbOrders)
testCrashTest(sqliteOrders)

// SQLite has one writer: a write outside of the transaction blocks on it and times out, so it is found without a crash.
describe.each([postgresOrders, mariadbOrders] as readonly OrdersKind<unknown>[])('crashTest() on $name', (kind) => {
  it('finds a handler that writes past its transaction', async () => {
    const open = serviceOn(kind, () => async (orders, orderId) => {
      await orders.insert(orders.pool, orderId)
      return []
    })
    await expect(crashTest({ open, message: placeOrder, points: ['message.handled', 'message.beforeAck'] })).rejects.toThrow(
      /^killed at message\.handled: the effect is \["o-1","o-1"\], and without a crash it is \["o-1"\]\.\n\n/,
    )
  })
})
