import { defineEvent, rootContext, TransactionRequiredError } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { commandHandlerWithOutbox, transactional } from '../../src/index.ts'
import { command, failureOf, handle, worldKinds } from '../support/world.ts'

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ orderId: string }>('order.placed')

describe.each(worldKinds)('commandHandlerWithOutbox() on $name', ({ open }) => {
  it('receives the transaction of its message, and its events are stored in it', async () => {
    await using world = await open()
    const { database } = world
    const handler = commandHandlerWithOutbox(database, { type: placeOrder, source: '/orders' }, async (order, transaction, context) => {
      expect(transaction).toBe(database.transaction(context))
      await transaction.query('INSERT INTO orders VALUES ($1)', [order.id])
      return [orderPlaced({ orderId: order.id }, { id: 'e1' })]
    })
    expect(handler.type).toBe('order.place')
    await handle(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }), handler.handle)
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([1, 1, 1])
  })

  it('accepts instances of a class', async () => {
    await using world = await open()
    class PlaceOrder {
      declare id: string
      get order() {
        return `o-${this.id}`
      }
    }
    const handler = commandHandlerWithOutbox(world.database, { type: PlaceOrder, source: '/orders' }, async (order, transaction) => {
      await transaction.query('INSERT INTO orders VALUES ($1)', [order.order])
    })
    await handle(transactional(world.database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }), handler.handle)
    expect(await world.query('SELECT id FROM orders')).toEqual([{ id: 'o-1' }])
  })

  it('fails the message without a transaction, before the function is called', async () => {
    await using world = await open()
    let called = false
    const handler = commandHandlerWithOutbox(world.database, { type: placeOrder, source: '/orders' }, () => {
      called = true
    })
    const { message } = command('1')
    expect(await failureOf(handler.handle(message, message.context(rootContext())))).toBeInstanceOf(TransactionRequiredError)
    expect(called).toBe(false)
  })
})
