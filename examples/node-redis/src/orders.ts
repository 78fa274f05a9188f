import { commandHandler, defineEvent, type Handler, RejectError } from '@ackord/core'
import type { Redis } from '@ackord/redis'

interface Order {
  readonly id: string
  readonly product: string
  readonly quantity: number
}

const placeOrder = defineEvent<Order>('order.place')
const orderPlaced = defineEvent<Order>('order.placed')

/** All keys have the service's tag, so that they commit together, on a cluster too. */
function keysOf(redis: Redis, tag: string): { order(id: string): string; stock(product: string): string } {
  return { order: (id) => redis.key(tag, 'order', id), stock: (product) => redis.key(tag, 'stock', product) }
}

export interface PlaceOrderOptions {
  readonly redis: Redis
  readonly tag: string
  /** Reads outside the transaction, because the transaction only queues writes. */
  readonly read: (key: string) => Promise<string | null>
}

/** The handler. One Redis script stores its writes, the inbox marker of the command and the event. */
export function placeOrderHandler({ redis, tag, read }: PlaceOrderOptions): Handler {
  const keys = keysOf(redis, tag)
  return commandHandler({ type: placeOrder, source: '/orders' }, async (order) => {
    const { id, product, quantity } = order
    const stock = keys.stock(product)
    const available = await read(stock)
    // A retry would fail too, so the command goes to the dead letter.
    if (Number(available) < quantity) throw new RejectError(`There are not ${quantity} of '${product}'.`)
    // If the stock has changed by the time of the commit, nothing is written and the handler runs again.
    redis.transaction()?.expect(stock, available)
    await redis.commands().decrby(stock, quantity)
    await redis.commands().hset(keys.order(id), { product, quantity: String(quantity) })
    return [orderPlaced(order, { partitionkey: id })]
  })
}
