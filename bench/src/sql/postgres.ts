import { type RawMessage, Router, silentLogger } from '@ackord/core'
import type { ServiceTelemetry } from '@ackord/outbox/service'
import { type TransactionalOptions, transactional } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import type pg from 'pg'
import { eventOf, inParallel, iteratorOf, orderHandler, orderOf, source } from './orders.ts'

const inboxSql = 'INSERT INTO ackord_inbox (consumer, source, id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING'
const orderSql = 'INSERT INTO orders (id, total) VALUES ($1, $2)'
export const outboxSql = `INSERT INTO ackord_outbox (state, destination, id, type, content_type, partition, data, attributes, available_at)
VALUES ('ready', $1, $2, $3, $4, 0, $5, $6, clock_timestamp())`
const inboxOfAllSql = `INSERT INTO ackord_inbox (consumer, source, id) SELECT 'by-hand', * FROM unnest($1::text[], $2::text[])
ON CONFLICT DO NOTHING RETURNING source, id`
const outboxOfAllSql = `INSERT INTO ackord_outbox (state, destination, id, type, content_type, partition, data, attributes, available_at)
SELECT 'ready', 'order-events', id, 'order.placed', 'application/json', 0, data, attributes, clock_timestamp()
FROM unnest($1::text[], $2::bytea[], $3::text[]) AS event(id, data, attributes)`

/** The hand-written equivalent: the same statements, the same driver, the same number of connections, the same event ids. */
export async function byHand(pool: pg.Pool, count: number, connections: number): Promise<number> {
  const iterator = iteratorOf(count)
  return await inParallel(connections, async () => {
    let done = 0
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
      const message = next.value
      const order = orderOf(message)
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        const { rowCount } = await client.query(inboxSql, ['by-hand', message.source, message.id])
        if (rowCount === 1) {
          await client.query(orderSql, [order.id, order.total])
          const { id, data, attributes } = eventOf(message, order)
          await client.query(outboxSql, ['order-events', id, 'order.placed', 'application/json', data, attributes])
        }
        await client.query('COMMIT')
      } finally {
        client.release()
      }
      await message.ack()
      done += 1
    }
    return done
  })
}

/** The same in groups: one inbox statement for the group, one statement per order, one outbox statement for the group. */
export async function groupsByHand(
  pool: pg.Pool,
  count: number,
  { size, groups }: { readonly size: number; readonly groups: number },
): Promise<number> {
  const iterator = iteratorOf(count)
  return await inParallel(groups, async () => {
    let done = 0
    for (;;) {
      const messages: RawMessage[] = []
      while (messages.length < size) {
        const next = await iterator.next()
        if (next.done === true) break
        messages.push(next.value)
      }
      if (messages.length === 0) return done
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        const sources = messages.map((message) => message.source)
        const { rows } = await client.query<{ id: string }>(inboxOfAllSql, [sources, messages.map((message) => message.id)])
        const fresh = new Set(rows.map(({ id }) => id))
        const events: ReturnType<typeof eventOf>[] = []
        for (const message of messages) {
          if (!fresh.has(message.id ?? '')) continue
          const order = orderOf(message)
          await client.query(orderSql, [order.id, order.total])
          events.push(eventOf(message, order))
        }
        await client.query(outboxOfAllSql, [
          events.map(({ id }) => id),
          events.map(({ data }) => data),
          events.map(({ attributes }) => attributes),
        ])
        await client.query('COMMIT')
      } finally {
        client.release()
      }
      for (const message of messages) await message.ack()
      done += messages.length
    }
  })
}

export async function throughAckord(
  pool: pg.Pool,
  count: number,
  options: {
    readonly concurrency: number
    readonly groupCommit?: TransactionalOptions['groupCommit']
    readonly telemetry?: ServiceTelemetry | undefined
  },
): Promise<number> {
  const { concurrency, groupCommit, telemetry } = options
  const database = fromPg(pool)
  const messages = source(count)
  const router = new Router({ concurrency, logger: silentLogger, metrics: telemetry?.metrics })
    .use(
      ...(telemetry === undefined ? [] : [telemetry.middleware]),
      transactional(database, { inbox: { consumer: 'ackord' }, outbox: { destination: 'order-events' }, groupCommit }),
    )
    .handle(orderHandler((order) => database.executor().query(orderSql, [order.id, order.total])))
  await router.run(telemetry?.source(messages) ?? messages)
  return router.health().handled
}
