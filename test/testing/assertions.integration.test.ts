import { jsonMarshaler, Message, marshal, silentLogger } from '@ackord/core'
import { sqlOutbox } from '@ackord/sql'
import { assertHandledOnce, assertNothingPublished, assertPublished, insideTransaction, rolledBack } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { orderRouter, placeOrder, saveOrder } from './order-router.ts'
import { mariadbOrders, type OrdersKind, postgresOrders, sqliteOrders } from './sql-orders.ts'

function testAssertions<Handle>(kind: OrdersKind<Handle>): void {
  async function openOrders() {
    const home = await kind.open()
    const orders = await home.connect()
    return {
      home,
      ...orders,
      outbox: sqlOutbox(orders.database, { logger: silentLogger }),
      async [Symbol.asyncDispose]() {
        await orders.close()
        await home[Symbol.asyncDispose]()
      },
    }
  }

  describe(`a user's test on ${kind.name}`, () => {
    it('delivers a message to its router twice, looks at rows and events, and rolls everything back', async () => {
      await using orders = await openOrders()
      const { database, outbox, home } = orders
      await rolledBack(database, async (transaction) => {
        const router = orderRouter(orders, saveOrder, insideTransaction(database, transaction))
        const events = { outbox, transaction }
        await assertNothingPublished(events)
        await assertHandledOnce(router, placeOrder, { state: () => orders.read(transaction), events })
        await assertPublished(events, { type: 'order.placed', destination: 'order-events', data: { orderId: 'o-1' } })
        expect(await orders.read(transaction)).toEqual(['o-1'])
      })
      expect(await home.committed()).toEqual([])
      await assertNothingPublished({ outbox })
    })

    it('is refused when the transaction is not around everything else: inbox and outbox would be committed, and the order rolled back', async () => {
      await using orders = await openOrders()
      const { database, outbox, home } = orders
      await rolledBack(database, async (transaction) => {
        const router = orderRouter(orders, saveOrder).use(insideTransaction(database, transaction))
        const handled = assertHandledOnce(router, placeOrder, { state: () => orders.read(transaction), events: { outbox, transaction } })
        await expect(handled).rejects.toMatchObject({ code: 'ACKORD_MIDDLEWARE_ORDER' })
      })
      expect(await home.committed()).toEqual([])
      await assertNothingPublished({ outbox })
    })

    it('stores an event in a transaction without a router, and sees it before and after the commit', async () => {
      await using orders = await openOrders()
      const { database, outbox } = orders
      const attributes = { id: 'e-1', type: 'order.placed', source: '/orders', specversion: '1.0' }
      const message = marshal(new Message({ orderId: 'o-1' }, attributes), jsonMarshaler)
      await database.write(async (transaction) => {
        await outbox.append(transaction, [{ destination: 'order-events', message }])
        await assertPublished({ outbox, transaction }, { id: 'e-1', data: { orderId: 'o-1' } })
        await expect(assertPublished({ outbox, transaction }, { type: 'order.shipped' })).rejects.toThrow(
          `order.placed 'e-1' to 'order-events': {"orderId":"o-1"}`,
        )
      })
      await assertPublished({ outbox }, { id: 'e-1' })
    })
  })
}

testAssertions(postgresOrders)
testAssertions(mariadbOrders)
testAssertions(sqliteOrders)
