import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Router, silentLogger } from '@ackord/core'
import { createSchema, transactional } from '@ackord/sql'
import { fromSqlite } from '@ackord/sql/sqlite'
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite'
import { rateOf, runRounds } from '../rounds.ts'
import { eventOf, iteratorOf, orderHandler, orderOf, source } from './orders.ts'

const orderSql = 'INSERT INTO orders (id, total) VALUES (?, ?)'

/** The hand-written equivalent: one writer, one message after the other, statements prepared once. */
async function byHand(client: DatabaseSyncInstance, count: number): Promise<number> {
  const iterator = iteratorOf(count)
  const inbox = client.prepare('INSERT INTO ackord_inbox (consumer, source, id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING')
  const insert = client.prepare(orderSql)
  const outbox =
    client.prepare(`INSERT INTO ackord_outbox (state, destination, id, type, content_type, partition, data, attributes, available_at)
VALUES ('ready', 'order-events', ?, 'order.placed', 'application/json', 0, ?, ?, CAST(unixepoch('subsec') * 1000 AS INTEGER))`)
  let done = 0
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
    const message = next.value
    const order = orderOf(message)
    client.exec('BEGIN IMMEDIATE')
    const { changes } = inbox.run('by-hand', message.source ?? '', message.id ?? '')
    if (changes === 1) {
      insert.run(order.id, order.total)
      const { id, data, attributes } = eventOf(message, order)
      outbox.run(id, data, attributes)
    }
    client.exec('COMMIT')
    await message.ack()
    done += 1
  }
  return done
}

async function throughAckord(client: DatabaseSyncInstance, count: number): Promise<number> {
  const database = fromSqlite(client, { logger: silentLogger })
  const router = new Router({ concurrency: 16, logger: silentLogger })
    .use(transactional(database, { inbox: { consumer: 'ackord' }, outbox: { destination: 'order-events' } }))
    .handle(orderHandler(async (order) => database.executor().prepare(orderSql).run(order.id, order.total)))
  await router.run(source(count))
  return router.health().handled
}

/** Exactly-once handling on an SQLite file, against the same statements written by hand. Both sync every commit. */
export async function sqliteRatios(rounds: { readonly rounds: number; readonly count: number }): Promise<readonly number[]> {
  const directory = mkdtempSync(join(tmpdir(), 'ackord-bench-'))
  const client = new DatabaseSync(join(directory, 'bench.db'))
  try {
    await createSchema(fromSqlite(client, { logger: silentLogger }))
    client.exec('CREATE TABLE orders (id TEXT PRIMARY KEY, total INTEGER NOT NULL) STRICT')
    const rates = await runRounds(
      { hand: (count) => rateOf(count, () => byHand(client, count)), ackord: (count) => rateOf(count, () => throughAckord(client, count)) },
      rounds,
    )
    return rates.ratios('ackord', 'hand')
  } finally {
    client.close()
    rmSync(directory, { recursive: true, force: true })
  }
}
