// @ts-check
// The parts of Ackord's contestants that do not depend on the store.
import { commandHandler, defineEvent, jsonMarshaler, MemoryBroker, marshal, Router, silentLogger } from '@ackord/core'
import { outboxSource, Relay } from '@ackord/outbox'

/** @type {ReturnType<typeof defineEvent<import('./contestant.mjs').Order>>} */
const placeOrder = defineEvent('order.place')
/** @type {ReturnType<typeof defineEvent<{ orderId: string, total: number }>>} */
const orderPlaced = defineEvent('order.placed')

export const commands = 'orders'
export const events = 'order-events'
const claiming = { destinations: [commands], logger: silentLogger }

/** The message of an order, as it is appended to an outbox. @param {import('./contestant.mjs').Order} order */
export function recordOf(order) {
  return { destination: commands, message: marshal(placeOrder(order, { id: order.id, source: '/bench' }), jsonMarshaler) }
}

/**
 * How messages get from the outbox to a router. `relay`: a relay publishes them to a broker, here the in-memory one. `source`: the router reads the
 * outbox itself, and a message stays there until its handler has committed.
 *
 * @typedef {'relay' | 'source'} Way
 */

/**
 * @typedef {object} Handling
 * @property {Way} way
 * @property {import('./contestant.mjs').Measure} measure
 * @property {number} concurrency
 * @property {import('@ackord/core').Middleware} middleware
 * @property {(order: import('./contestant.mjs').Order) => Promise<unknown>} save
 * @property {(id: string) => void} onOrder
 */

/** @param {import('@ackord/outbox').OutboxStore} outbox @param {Handling} handling @returns {() => Promise<void>} stops */
export function startHandling(outbox, { way, measure, concurrency, middleware, save, onOrder }) {
  // The counterpart of a handler that does nothing is a broker that confirms at once.
  if (measure === 'noop' && way === 'relay') return startRelay(outbox, countingPublisher(onOrder))
  const router = new Router({ concurrency, logger: silentLogger })
  if (measure === 'noop') router.handle(noopHandler(onOrder))
  else router.use(middleware).handle(orderHandler(save, onOrder))
  return connect(router, outbox, { way, prefetch: 2 * concurrency })
}

/** @param {(order: import('./contestant.mjs').Order) => Promise<unknown>} save @param {(id: string) => void} onOrder */
function orderHandler(save, onOrder) {
  return commandHandler({ type: placeOrder, source: '/orders' }, async (order) => {
    onOrder(order.id)
    await save(order)
    return [orderPlaced({ orderId: order.id, total: order.total })]
  })
}

/** @param {(id: string) => void} onOrder */
function noopHandler(onOrder) {
  return commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
    onOrder(id)
    return []
  })
}

/** @param {(id: string) => void} onOrder @returns {import('@ackord/core').Publisher} */
function countingPublisher(onOrder) {
  return {
    async publish(_, messages) {
      for (const { id = '' } of messages) onOrder(id)
      return messages.map(() => ({ ok: true }))
    },
  }
}

/** @param {import('@ackord/outbox').OutboxStore} outbox @param {import('@ackord/core').Publisher} publisher @returns {() => Promise<void>} stops */
function startRelay(outbox, publisher) {
  const relay = new Relay(outbox, { ...claiming, publisher }).start()
  return () => relay.stop()
}

/**
 * @param {import('@ackord/core').Router} router
 * @param {import('@ackord/outbox').OutboxStore} outbox
 * @param {{ way: Way, prefetch: number }} options
 * @returns {() => Promise<void>} stops
 */
function connect(router, outbox, { way, prefetch }) {
  if (way === 'relay') {
    const broker = new MemoryBroker({ logger: silentLogger })
    const stopRelay = startRelay(outbox, broker)
    const running = router.run(broker.source(commands, { prefetch }))
    return async () => {
      await stopRelay()
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
