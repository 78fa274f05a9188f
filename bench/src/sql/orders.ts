import {
  commandHandler,
  defineEvent,
  deterministicIds,
  type Handler,
  jsonMarshaler,
  Message,
  marshal,
  type RawMessage,
  type Source,
} from '@ackord/core'

const placeOrder = defineEvent<{ id: string; total: number }>('order.place')
export const orderPlaced = defineEvent<{ orderId: string; total: number }>('order.placed')

let sent = 0

/** Messages as a broker delivers them, each with a unique id. */
export function source(count: number): Source {
  return {
    async *messages() {
      for (let index = 0; index < count; index += 1) {
        sent += 1
        const attributes = { id: `m-${sent}`, source: '/bench', specversion: '1.0' }
        const { data, attributes: complete } = marshal(placeOrder({ id: `o-${sent}`, total: 5 }, attributes), jsonMarshaler)
        yield new Message(data, complete, { acking: { ack() {}, nack: (error) => fail(error), reject: (error) => fail(error) } })
      }
    },
  }
}

function fail(error: unknown): never {
  throw error
}

export interface Order {
  readonly id: string
  readonly total: number
}

/** Parses the order of a message, as a hand-written loop does. */
export function orderOf(message: RawMessage): Order {
  return JSON.parse(new TextDecoder().decode(message.data)) as Order
}

/** The event that a hand-written loop creates for an order, with the same id as ours. */
export function eventOf(message: RawMessage, order: Order): { readonly id: string; readonly attributes: string; readonly data: Buffer } {
  const id = deterministicIds('by-hand', message.source ?? '', message.id ?? '')('order.placed')
  const attributes = {
    id,
    type: 'order.placed',
    source: '/orders',
    specversion: '1.0',
    time: new Date().toISOString(),
    datacontenttype: 'application/json',
  }
  return { id, attributes: JSON.stringify(attributes), data: Buffer.from(JSON.stringify({ orderId: order.id, total: order.total })) }
}

/** The handler, with any function that saves the order. */
export function orderHandler(save: (order: Order) => Promise<unknown>): Handler {
  return commandHandler({ type: placeOrder, source: '/orders' }, async (order) => {
    await save(order)
    return [orderPlaced({ orderId: order.id, total: order.total })]
  })
}

/** Runs workers that share one source; resolves to the sum of the numbers of messages that they handled. */
export async function inParallel(workers: number, work: () => Promise<number>): Promise<number> {
  const counts = await Promise.all(Array.from({ length: workers }, work))
  return counts.reduce((sum, count) => sum + count, 0)
}

export function iteratorOf(count: number): AsyncIterator<RawMessage> {
  return source(count).messages({ signal: new AbortController().signal })[Symbol.asyncIterator]()
}
