import { commandHandler, defineEvent, type Handler, RejectError } from '@ackord/core'
import type { Redis } from '@ackord/redis'

interface Order {
  readonly id: string
  readonly product: string
  readonly quantity: number
}

const placeOrder = defineEvent<Order>('order.place')
const orderPlaced = defineEvent<Order>('order.placed')

/** All keys have the service's tag, so that they commit together, also on a cluster. */
function keysOf(redis: Redis, tag: string): { order(id: string): string; stock(product: string): string } {
  return { order: (id) => redis.key(tag, 'order', id), stock: (product) => redis.key(tag, 'stock', product) }
}

export interface PlaceOrderOptions {
  readonly redis: Redis
  readonly tag: string
  /** Reads outside of the transaction: writes are only gathered in it. */
  readonly read: (key: string) => Promise<string | null>
}

/** The handler. Its writes, the mark that the command was handled and the event are one script of Redis. */
export function placeOrderHandler({ redis, tag, read }: PlaceOrderOptions): Handler {
  const keys = keysOf(redis, tag)
  return commandHandler({ type: placeOrder, source: '/orders' }, async (order) => {
    const { id, product, quantity } = order
    const stock = keys.stock(product)
    const available = await read(stock)
    // Another attempt would find no more: the command goes to the dead letter.
    if (Number(available) < quantity) throw new RejectError(`There are not ${quantity} of '${product}'.`)
    // If somebody has changed it when this commits, nothing is written and the handler runs again.
    redis.transaction()?.expect(stock, available)
    await redis.commands().decrby(stock, quantity)
    await redis.commands().hset(keys.order(id), { product, quantity: String(quantity) })
    return [orderPlaced(order, { partitionkey: id })]
  })
}
