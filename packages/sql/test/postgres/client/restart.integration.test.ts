import { commandHandler, defineEvent, jsonMarshaler, MemoryBroker, marshal, type Publisher, publishAll, Router } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { deferred, type RecordingLogger, recordingLogger } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { startPostgres } from '../../../../../scripts/servers/index.mjs'
import { isProof } from '../../../../../scripts/test-depth.mjs'
import { createSchema, sqlOutbox, transactional } from '../../../src/index.ts'
import { fromPg } from '../../../src/postgres/index.ts'
import { countdown } from '../../support/countdown.ts'
import { pg } from '../../support/pg.ts'

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ id: string }>('order.placed')

function linesOf({ lines }: RecordingLogger, pattern: RegExp): number {
  return lines.filter(({ text }) => pattern.test(text)).length
}

it('survives a database that is killed, and one that is stopped at once, in the middle of the work', { timeout: 120_000 }, async () => {
  const total = isProof ? 30_000 : 3000
  await using server = await startPostgres()
  const pool = new pg.Pool({ connectionString: server.url, max: 10 })
  const logs = { database: recordingLogger(), router: recordingLogger(), relay: recordingLogger() }
  const database = fromPg(pool, { logger: logs.database })
  await createSchema(database)
  // No primary key, so that an order that is applied twice leaves two rows.
  await pool.query('CREATE TABLE orders (id text)')

  const broker = new MemoryBroker({ history: Number.POSITIVE_INFINITY })
  const [third, half] = [countdown(total / 3), countdown(total / 2)]
  const router = new Router({ concurrency: 8, logger: logs.router })
    .use(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'order-events' } }))
    .handle(
      commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
        await database.executor().query('INSERT INTO orders VALUES ($1)', [id])
        third.hit()
        half.hit()
        return [orderPlaced({ id })]
      }),
    )
  const sent = new Map<string, number>()
  const allSent = deferred()
  const publisher: Publisher = {
    async publish(_, messages) {
      for (const { id = '' } of messages) sent.set(id, (sent.get(id) ?? 0) + 1)
      if (sent.size >= total) allSent.resolve()
      return messages.map(() => ({ ok: true }))
    },
  }
  await using relay = new Relay(sqlOutbox(database), {
    publisher,
    logger: logs.relay,
    pollInterval: 100,
    lease: 5000,
    publishTimeout: 4000,
  }).start()
  const running = router.run(broker.source('orders', { deadLetter: 'orders.dead' }))
  const commands = Array.from({ length: total }, (_, index) =>
    marshal(placeOrder({ id: `o-${index}` }, { id: `m-${index}`, source: '/shop' }), jsonMarshaler),
  )
  await publishAll(broker, 'orders', commands)

  await third.reached
  await server.kill('SIGKILL')
  await server.restart()
  await half.reached
  await server.kill('SIGQUIT') // the signal of `pg_ctl stop -m immediate`
  await server.restart()

  await broker.idle('orders')
  await allSent.promise
  await relay.stop()
  await router.stop()
  await running

  const count = async (sql: string) => Number((await pool.query(`SELECT count(*) AS n FROM ${sql}`)).rows[0].n)
  const left = {
    orders: await count('orders'),
    different: await count('(SELECT DISTINCT id FROM orders) AS o'),
    inbox: await count('ackord_inbox'),
    outbox: await count('ackord_outbox'),
    rejected: broker.published('orders.dead').length,
    events: sent.size,
  }
  await pool.end()
  expect(left).toEqual({ orders: total, different: total, inbox: total, outbox: 0, rejected: 0, events: total })
  // One line for each end of an outage that the relay noticed, and none in between; at most one line per connection.
  const failures = linesOf(logs.relay, /store failed/)
  expect(failures).toBeLessThanOrEqual(2)
  expect(linesOf(logs.relay, /answers again/)).toBe(failures)
  expect(logs.database.lines.length).toBeLessThanOrEqual(2 * 10)
  // The router logs each failed delivery once.
  expect(logs.router.lines.length).toBe(router.health().failed)
})
