import { memoryOrders } from '../memory-orders.ts'

/** `src/application/order-handlers.ts` */
export const nestjsHandlers: string = `import { OnCommand, OnEvent } from '@ackord/nestjs'
import { Inject, Injectable } from '@nestjs/common'
import type { Order, Orders } from '../domain/order.ts'
import { orderPaid, orderPlaced, paymentReceived, placeOrder } from './messages.ts'
import { ordersToken } from './tokens.ts'

@Injectable()
export class OrderHandlers {
  readonly #orders: Orders

  constructor(@Inject(ordersToken) orders: Orders) {
    this.#orders = orders
  }

  /** The order, the returned event and the record that this command was handled are committed together, or not at all. */
  @OnCommand(placeOrder)
  async place(order: Order) {
    const isNew = await this.#orders.add(order)
    return isNew ? [orderPlaced({ orderId: order.id, total: order.total })] : []
  }

  @OnEvent(paymentReceived)
  async recordPayment({ orderId }: { readonly orderId: string }) {
    // The message is delivered again later: the payment may have overtaken the order.
    if (!(await this.#orders.markPaid(orderId))) throw new Error(\`There is no order '\${orderId}'.\`)
    return [orderPaid({ orderId })]
  }
}
`

/** `test/handlers.test.ts` */
export const nestjsHandlersTest: string = `import { getDatabaseToken } from '@ackord/nestjs'
import {
  AckordTestingModule,
  assertHandledOnce,
  assertNothingPublished,
  assertPublished,
  deliver,
} from '@ackord/nestjs/testing'
import type { MemoryStore } from '@ackord/testkit'
import { Test } from '@nestjs/testing'
import { expect, it } from 'vitest'
import { paymentReceived, placeOrder } from '../src/application/messages.ts'
import { OrderHandlers } from '../src/application/order-handlers.ts'
import { ordersToken } from '../src/application/tokens.ts'
import type { Order, Orders } from '../src/domain/order.ts'

${memoryOrders}

async function openWorld() {
  const createOrders = (store: MemoryStore) => new MemoryOrders(store)
  const module = await Test.createTestingModule({
    imports: [AckordTestingModule.forRoot()],
    providers: [OrderHandlers, { provide: ordersToken, inject: [getDatabaseToken()], useFactory: createOrders }],
  }).compile()
  const store = module.get<MemoryStore>(getDatabaseToken())
  return { module, orders: module.get<Orders>(ordersToken), state: () => store.executor().entries() }
}

it('places an order once, although its command is delivered twice', async () => {
  const { module, state } = await openWorld()
  await assertHandledOnce(module, placeOrder({ id: 'o-1', total: 42 }), { state })
  await assertPublished(module, { type: 'order.placed', data: { orderId: 'o-1', total: 42 } })
})

it('records a payment once', async () => {
  const { module, orders, state } = await openWorld()
  await orders.add({ id: 'o-1', total: 42 })
  await assertHandledOnce(module, paymentReceived({ orderId: 'o-1' }), { state })
  await assertPublished(module, { type: 'order.paid', data: { orderId: 'o-1' } })
})

it('leaves a payment without an order for later', async () => {
  const { module } = await openWorld()
  await expect(deliver(module, paymentReceived({ orderId: 'o-1' }))).rejects.toThrow("There is no order 'o-1'.")
  await assertNothingPublished(module)
})

it('rejects a command that does not match its schema', async () => {
  const { module } = await openWorld()
  const invalid = placeOrder({ id: 'o-1', total: -1 })
  await expect(deliver(module, invalid)).rejects.toMatchObject({ code: 'ACKORD_VALIDATION_FAILED' })
  await assertNothingPublished(module)
})
`
