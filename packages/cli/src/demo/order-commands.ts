import { commandHandler, defineEvent, type Handler, jsonMarshaler, marshal, type RawMessage } from '@ackord/core'

interface Order {
  readonly id: string
}

const placeOrder = defineEvent<Order>('order.place')
const orderPlaced = defineEvent<{ readonly orderId: string }>('order.placed')

export function orderId(index: number): string {
  return `o-${index + 1}`
}

export function orderCommand(index: number): RawMessage {
  const id = orderId(index)
  return marshal(placeOrder({ id }, { id: `place-${id}`, source: '/shop', specversion: '1.0' }), jsonMarshaler)
}

/** Every third: brokers deliver again what they are not sure of. */
export function isRepeated(index: number): boolean {
  return index % 3 === 0
}

/** The handler of the service: it calls its port, and returns what happened. Every tenth order fails at first, after it was written. */
export function placeOrderHandler(save: (id: string) => Promise<void>, failed: Set<string>): Handler {
  return commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
    await save(id)
    if (Number(id.slice(2)) % 10 === 0 && !failed.has(id)) {
      failed.add(id)
      throw new Error('The payment service is busy.')
    }
    return [orderPlaced({ orderId: id }, { partitionkey: id })]
  })
}
