// @ts-check
// A whole service on a store, with the in-memory broker.
import { deepStrictEqual } from 'node:assert/strict'
import { commandHandler, defineEvent, jsonMarshaler, MemoryBroker, marshal, publishAll, silentLogger } from '@ackord/core'

/**
 * @typedef {object} ServiceWorld
 * @property {(options: any) => { start(): unknown, close(): Promise<void> }} createService
 * @property {(key: string) => Promise<unknown>} save in the transaction of the current message
 * @property {(key: string) => Promise<boolean>} isSaved
 * @property {() => Promise<void>} close
 */

/** @type {ReturnType<typeof defineEvent<{ id: string, customer: string, fails: boolean }>>} */
const placeOrder = defineEvent('order.place')
/** @type {ReturnType<typeof defineEvent<{ orderId: string }>>} */
const orderPlaced = defineEvent('order.placed')

/** @param {import('./checks.mjs').Checks} checks @param {string} name @param {() => Promise<ServiceWorld>} open */
export function testService({ describe, it }, name, open) {
  describe(`service: ${name}`, () => {
    it('handles a message once, rolls back one that fails, and publishes the events of each key in order', async () => {
      const { createService, save, isSaved, close } = await open()
      const broker = new MemoryBroker({ logger: silentLogger })
      let failures = 0
      const placing = commandHandler({ type: placeOrder, source: '/orders' }, async ({ id, customer, fails }) => {
        await save(id)
        if (fails) {
          failures += 1
          throw new Error('This handler fails.')
        }
        return [orderPlaced({ orderId: id }, { partitionkey: customer })]
      })
      const service = createService({
        consumer: 'orders',
        source: broker.source('orders', { deadLetter: { publisher: broker, destination: 'orders.dead' } }),
        handlers: [placing],
        publisher: broker,
        destination: 'events',
        router: { maxDeliveries: 2 },
        relay: { pollInterval: 50 },
        logger: silentLogger,
      })
      service.start()
      const orders = Array.from({ length: 8 }, (_, index) => ({ id: `o-${index}`, customer: `c-${index % 2}`, fails: index === 4 }))
      const commands = orders.map((order) => marshal(placeOrder(order, { id: `m-${order.id}`, source: '/shop' }), jsonMarshaler))
      // Each is delivered twice.
      for (const command of commands) await publishAll(broker, 'orders', [command, command])
      await broker.idle('orders')
      /** @type {string[]} */
      const events = []
      for await (const event of broker.source('events').messages({ signal: AbortSignal.timeout(45_000) })) {
        events.push(JSON.parse(new TextDecoder().decode(event.data)).orderId)
        await event.ack()
        if (events.length === 7) break
      }
      await service.close()
      const saved = []
      for (const { id } of orders) if (await isSaved(id)) saved.push(id)
      await broker.close()
      await close()
      const even = ['o-0', 'o-2', 'o-6']
      deepStrictEqual(saved, ['o-0', 'o-1', 'o-2', 'o-3', 'o-5', 'o-6', 'o-7'])
      deepStrictEqual(
        events.filter((id) => even.includes(id)),
        even,
      )
      deepStrictEqual(
        events.filter((id) => !even.includes(id)),
        ['o-1', 'o-3', 'o-5', 'o-7'],
      )
      // Two copies, each delivered twice.
      deepStrictEqual(failures, 4)
    })
  })
}
