// @ts-check
// The parts of Ackord's contestants that do not depend on the store.
import { commandHandler, defineEvent, jsonMarshaler, MemoryBroker, marshal, silentLogger } from '@ackord/core'
import { outboxSource, Relay } from '@ackord/outbox'

/** @type {ReturnType<typeof defineEvent<import('./contestant.mjs').Order>>} */
const placeOrder = defineEvent('order.place')
/** @type {ReturnType<typeof defineEvent<{ orderId: string, total: number }>>} */
const orderPlaced = defineEvent('order.placed')

export const commands = 'orders'
export const events = 'order-events'

/** The message of an order, as it is appended to an outbox. @param {import('./contestant.mjs').Order} order */
export function recordOf(order) {
  return { destination: commands, message: marshal(placeOrder(order, { id: order.id, source: '/bench' }), jsonMarshaler) }
}

/** @param {(order: import('./contestant.mjs').Order) => Promise<unknown>} save @param {(id: string) => void} onOrder */
export function orderHandler(save, onOrder) {
  return commandHandler({ type: placeOrder, source: '/orders' }, async (order) => {
    onOrder(order.id)
    await save(order)
    return [orderPlaced({ orderId: order.id, total: order.total })]
  })
}

/**
 * How messages get from the outbox to a router. `relay`: a relay publishes them to a broker, here the in-memory one. `source`: the router reads the
 * outbox itself, and a message stays there until its handler has committed.
 *
 * @typedef {'relay' | 'source'} Way
 */

/**
 * @param {import('@ackord/core').Router} router
 * @param {import('@ackord/outbox').OutboxStore} outbox
 * @param {{ way: Way, prefetch: number }} options
 * @returns {() => Promise<void>} stops
 */
export function connect(router, outbox, { way, prefetch }) {
  const claiming = { destinations: [commands], logger: silentLogger }
  if (way === 'relay') {
    const broker = new MemoryBroker({ logger: silentLogger })
    const relay = new Relay(outbox, { ...claiming, publisher: broker }).start()
    const running = router.run(broker.source(commands, { prefetch }))
    return async () => {
      await relay.stop()
      await router.stop()
      await running
      await broker.close()
    }
  }
  const ending = new AbortController()
  const reader = outboxSource(outbox, { ...claiming, signal: ending.signal })
  const running = router.run({
    async *messages() {
      for await (const { message } of reader) yield message
    },
  })
  return async () => {
    ending.abort()
    await router.stop()
    await running
    await reader[Symbol.asyncDispose]()
  }
}
