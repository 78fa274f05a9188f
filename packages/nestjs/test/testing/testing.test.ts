import { defineEvent, jsonMarshaler, MemoryBroker, marshal, publishAll, silentLogger } from '@ackord/core'
import { MemoryStore } from '@ackord/testkit'
import { Body, Controller, Inject, Injectable, Module, Post } from '@nestjs/common'
import { Test } from '@nestjs/testing'
import { describe, expect, it } from 'vitest'
import { AckordModule, Idempotent, InjectDatabase, InjectOutbox, OnCommand, OnEvent } from '../../src/index.ts'
import { AckordTestingModule, assertHandledOnce, assertNothingPublished, assertPublished, deliver } from '../../src/testing/index.ts'

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ id: string }>('order.placed')
const billing = 'billing'

@Injectable()
class Orders {
  @InjectDatabase() readonly store!: MemoryStore
  @InjectOutbox() readonly outbox!: MemoryStore['outbox']

  @OnCommand(placeOrder, { consumer: 'orders' })
  async place({ id }: { id: string }) {
    this.store.executor().set('orders', Number(this.store.executor().get('orders') ?? 0) + 1)
    return [orderPlaced({ id }, { partitionkey: id })]
  }

  @OnEvent(orderPlaced, { consumer: billing })
  bill({ id }: { id: string }) {
    this.store.executor().set(`bill of ${id}`, true)
  }
}

/** An application as it is deployed: without the replacement, it would need a database. */
const root = AckordModule.forRootAsync({
  useFactory: () => {
    throw new Error('A test must not connect to the database.')
  },
})
@Module({ imports: [root], providers: [Orders] })
class AppModule {}

describe('AckordTestingModule', () => {
  it('replaces the instance of an application, and assertions work on the compiled module', async () => {
    const store = new MemoryStore({ source: '/test', destination: 'events' })
    const builder = Test.createTestingModule({ imports: [AppModule] })
    const module = await AckordTestingModule.replace(builder, { store, destination: 'order-events' }).compile()

    await assertNothingPublished(module)
    await assertHandledOnce(module, placeOrder({ id: 'o-1' }), { consumer: 'orders', state: () => store.executor().get('orders') })
    const [event] = await assertPublished(module, { type: 'order.placed', data: { id: 'o-1' }, destination: 'order-events' })
    expect(event?.message.partitionKey).toBe('o-1')
    await expect(assertPublished(module, { type: 'order.placed' }, { times: 2 })).rejects.toThrow('Expected 2 times')
    await expect(assertNothingPublished(module, { type: 'order.placed' })).rejects.toThrow('Expected no event')
    await module.close()
  })

  it('takes the place of AckordModule in the test of a module, with consumers and instances by name', async () => {
    const store = new MemoryStore()
    @Injectable()
    class Shop {
      @OnEvent(orderPlaced, { instance: 'shop' })
      placed() {}
    }
    const module = await Test.createTestingModule({
      imports: [AckordTestingModule.forRoot({ store }), AckordTestingModule.forRoot({ name: 'shop' })],
      providers: [Orders, Shop],
    }).compile()

    await deliver(module, orderPlaced({ id: 'o-1' }), { consumer: billing })
    expect(store.executor().get('bill of o-1')).toBe(true)
    await deliver(module, orderPlaced({ id: 'o-1' }), { instance: 'shop' })
    await expect(deliver(module, orderPlaced({ id: 'o-1' }))).rejects.toThrow("consumer must be one of 'orders', 'billing'")
    await module.close()
  })

  it('runs the whole application on the in-memory broker when it is asked to start', async () => {
    const broker = new MemoryBroker({ logger: silentLogger })
    const store = new MemoryStore()
    const module = await Test.createTestingModule({
      imports: [AckordTestingModule.forRoot({ broker, store, destination: billing, start: true })],
      providers: [Orders],
    }).compile()
    module.useLogger(false)
    await module.init()

    const message = marshal(placeOrder({ id: 'o-1' }, { id: 'm-1', source: '/shop' }), jsonMarshaler)
    await publishAll(broker, 'orders', [message, message])
    await broker.idle('orders')
    while (store.executor().get('bill of o-1') !== true) await new Promise((resolve) => setImmediate(resolve))
    await module.close()

    expect(store.executor().get('orders')).toBe(1)
  })

  it('carries out idempotent requests once', async () => {
    @Controller('orders')
    class OrderController {
      @Inject(Orders) readonly orders!: Orders

      @Post()
      @Idempotent({ scope: () => 'ann' })
      async place(order: { id: string }) {
        const { store, outbox } = this.orders
        const events = await this.orders.place(order)
        const transaction = store.transaction()
        if (transaction !== undefined) await outbox.append(transaction.events, events)
        return order
      }
    }
    Body()(OrderController.prototype, 'place', 0)
    const module = await Test.createTestingModule({
      imports: [AckordTestingModule.forRoot()],
      providers: [Orders],
      controllers: [OrderController],
    }).compile()
    const app = module.createNestApplication({ logger: false })
    await app.listen(0, '127.0.0.1')
    const send = async () => {
      const headers = { 'content-type': 'application/json', 'idempotency-key': 'k-1' }
      const response = await fetch(`${await app.getUrl()}/orders`, { method: 'POST', headers, body: '{"id":"o-1"}' })
      return [response.status, await response.text()]
    }

    expect([await send(), await send()]).toEqual([
      [201, '{"id":"o-1"}'],
      [201, '{"id":"o-1"}'],
    ])
    await assertPublished(app, { type: 'order.placed' })
    await app.close()
  })
})
