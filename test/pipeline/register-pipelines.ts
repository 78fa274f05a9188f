import { eventHandler, Message, type RawMessage, Router, silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { createSchema, sqlOutbox, transactional } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { describe, expect, it } from 'vitest'
import { openMysql2 } from '../../packages/sql/test/mysql/support/mysql-world.ts'
import { openSchema } from '../../packages/sql/test/support/own-schema.ts'
import { ownName } from '../../scripts/test-run.mjs'
import type { CarrierKind } from './carrier.ts'
import { until } from './until.ts'

const orderCount = 300
const utf8 = new TextEncoder()

/** Registers one test per broker: all brokers have the same one, in files that run with different servers. */
export function registerPipelines(carriers: readonly CarrierKind[]): void {
  describe('orders from the outbox in PostgreSQL to an inbox in MariaDB', () => {
    it.concurrent.each(carriers)(
      'through $name, which $fault at a third and at a half, are applied once each',
      async (kind) => {
        const destination = `orders-${ownName()}`
        await using shop = await openSchema()
        await using billing = await openMysql2()
        await using carrier = await kind.open(destination)
        const pool = shop.createPool()
        const database = fromPg(pool)
        await createSchema(database)
        const outbox = sqlOutbox(database, { logger: silentLogger })
        const relay = new Relay(outbox, { publisher: carrier.publisher, pollInterval: 50, batchSize: 20, logger: silentLogger })
        // No primary key, so that an order that is applied twice appears twice.
        await billing.query('CREATE TABLE payments (order_id VARCHAR(40) NOT NULL)')
        const crashes = crashing(carrier, [orderCount / 3, orderCount / 2])
        const router = new Router({ concurrency: 8, logger: silentLogger })
        router.use(transactional(billing.database, { inbox: { consumer: 'billing' }, outbox: { destination: 'invoices' } }))
        router.handle(
          eventHandler<{ readonly id: string }>({ type: 'order.placed' }, async ({ id }) => {
            await billing.run('INSERT INTO payments (order_id) VALUES (?)', [id])
            crashes.applied()
            return []
          }),
        )

        relay.start()
        const running = router.run(carrier.source)
        for (let placed = 0; placed < orderCount; placed += 10) {
          const orders = Array.from({ length: 10 }, (_, index) => `o-${placed + index + 1}`)
          await database.write(async (transaction) => {
            for (const id of orders) await transaction.query('INSERT INTO orders (id) VALUES ($1)', [id])
            await outbox.append(
              transaction,
              orders.map((id) => ({ destination, message: orderPlaced(id) })),
            )
          })
        }
        await until(async () => (await billing.inbox()) === orderCount, 'every order is in the inbox')
        await until(async () => (await shop.outbox()) === 0, 'the outbox is empty')
        await crashes.done()
        await router.stop()
        await running
        await relay.stop()
        await pool.end()

        expect(crashes.count).toBe(2)
        expect(await shop.orders()).toBe(orderCount)
        const [counts] = await billing.query('SELECT COUNT(*) AS applied, COUNT(DISTINCT order_id) AS orders FROM payments')
        expect({ applied: Number(counts?.['applied']), orders: Number(counts?.['orders']) }).toEqual({
          applied: orderCount,
          orders: orderCount,
        })
      },
      180_000,
    )
  })
}

function orderPlaced(id: string): RawMessage {
  const attributes = { id: `placed-${id}`, type: 'order.placed', source: '/shop', specversion: '1.0' }
  return new Message(utf8.encode(JSON.stringify({ id })), attributes)
}

/** Crashes the broker when this number of orders has been applied. Repeated handler runs count too. */
function crashing(carrier: { crash(): Promise<void> }, at: readonly number[]) {
  const crashes: Promise<void>[] = []
  let applied = 0
  return {
    get count() {
      return crashes.length
    },
    applied() {
      applied += 1
      const previous = crashes.at(-1) ?? Promise.resolve()
      if (at.includes(applied)) crashes.push(previous.then(() => carrier.crash()))
    },
    done: () => Promise.all(crashes),
  }
}
