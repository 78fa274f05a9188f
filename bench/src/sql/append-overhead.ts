import { jsonMarshaler, marshal } from '@ackord/core'
import { sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import type pg from 'pg'
import { rateOf, runRounds } from '../rounds.ts'
import { orderPlaced } from './orders.ts'
import { outboxSql } from './postgres.ts'

let written = 0

type Query = (sql: string, values: unknown[]) => Promise<unknown>

/** A typical business transaction: three statements. */
async function business(query: Query): Promise<void> {
  written += 1
  const id = `b-${written}`
  await query('INSERT INTO orders (id, total) VALUES ($1, 0)', [id])
  await query('UPDATE orders SET total = 1 WHERE id = $1', [id])
  await query('SELECT total FROM orders WHERE id = $1', [id])
}

/** Repeats the work on all connections concurrently. */
async function repeatedly(connections: number, count: number, work: () => Promise<void>): Promise<number> {
  let started = 0
  let done = 0
  const worker = async () => {
    while (started < count) {
      started += 1
      await work()
      done += 1
    }
  }
  await Promise.all(Array.from({ length: connections }, worker))
  return done
}

/** A hand-written transaction, with or without an event. */
async function ownTransaction(pool: pg.Pool, append: ((client: pg.PoolClient) => Promise<void>) | undefined): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await business((sql, values) => client.query(sql, values))
    await append?.(client)
    await client.query('COMMIT')
  } finally {
    client.release()
  }
}

/** The cost of an event in a business transaction, by round: in `database.write()`, in a hand-written transaction, and with a hand-written insert. */
export async function appendOverhead(
  pool: pg.Pool,
  options: { readonly connections: number; readonly rounds: number; readonly count: number },
): Promise<Record<'written' | 'byHand' | 'inserted', readonly number[]>> {
  const { connections } = options
  const database = fromPg(pool)
  const outbox = sqlOutbox(database)
  const message = marshal(orderPlaced({ orderId: 'o', total: 1 }, { id: 'e', source: '/orders' }), jsonMarshaler)
  const records = [{ destination: 'order-events', message }]
  const row = ['order-events', 'e', 'order.placed', 'application/json', Buffer.from(message.data), JSON.stringify(message.attributes)]
  const insert = async (client: pg.PoolClient) => void (await client.query(outboxSql, row))
  const rates = await runRounds(
    {
      plain: (count) => rateOf(count, () => repeatedly(connections, count, () => ownTransaction(pool, undefined))),
      written: (count) =>
        rateOf(count, () =>
          repeatedly(connections, count, () =>
            database.write(async (transaction) => {
              await business((sql, values) => transaction.query(sql, values))
              await outbox.append(transaction, records)
            }),
          ),
        ),
      byHand: (count) =>
        rateOf(count, () => repeatedly(connections, count, () => ownTransaction(pool, (client) => outbox.append(client, records)))),
      inserted: (count) => rateOf(count, () => repeatedly(connections, count, () => ownTransaction(pool, insert))),
    },
    options,
  )
  const overhead = (variant: 'written' | 'byHand' | 'inserted') => rates.ratios('plain', variant).map((ratio) => ratio - 1)
  return { written: overhead('written'), byHand: overhead('byHand'), inserted: overhead('inserted') }
}
