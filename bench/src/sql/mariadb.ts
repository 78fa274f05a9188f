import { Router, silentLogger } from '@ackord/core'
import { createSchema, transactional } from '@ackord/sql'
import { fromMysql2 } from '@ackord/sql/mysql'
import mysql from 'mysql2/promise'
import { rateOf, runRounds } from '../rounds.ts'
import { eventOf, inParallel, iteratorOf, orderHandler, orderOf, source } from './orders.ts'

const url = process.env['MARIADB_URL'] ?? 'mysql://root@127.0.0.1:3306/test'
const orderSql = 'INSERT INTO orders (id, total) VALUES (?, ?)'

/** The hand-written equivalent: the same statements, the same driver, the same number of connections. */
async function byHand(pool: mysql.Pool, count: number, connections: number): Promise<number> {
  const iterator = iteratorOf(count)
  return await inParallel(connections, async () => {
    let done = 0
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
      const message = next.value
      const order = orderOf(message)
      const connection = await pool.getConnection()
      try {
        await connection.query('START TRANSACTION')
        if (await isNew(connection, message.source, message.id)) {
          await connection.query(orderSql, [order.id, order.total])
          const { id, data, attributes } = eventOf(message, order)
          await connection.query(
            `INSERT INTO ackord_outbox (state, destination, id, type, content_type, \`partition\`, data, attributes, created_at, available_at)
VALUES ('ready', 'order-events', ?, 'order.placed', 'application/json', 0, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))`,
            [id, data, attributes],
          )
        }
        await connection.query('COMMIT')
      } finally {
        connection.release()
      }
      await message.ack()
      done += 1
    }
    return done
  })
}

async function isNew(connection: mysql.PoolConnection, from: string | undefined, id: string | undefined): Promise<boolean> {
  try {
    await connection.query("INSERT INTO ackord_inbox (consumer, source, id, received_at) VALUES ('by-hand', ?, ?, UTC_TIMESTAMP(6))", [
      from,
      id,
    ])
    return true
  } catch (error) {
    if ((error as { errno?: number }).errno === 1062) return false
    throw error
  }
}

async function throughAckord(pool: mysql.Pool, count: number, concurrency: number): Promise<number> {
  const database = fromMysql2(pool)
  const router = new Router({ concurrency, logger: silentLogger })
    .use(transactional(database, { inbox: { consumer: 'ackord' }, outbox: { destination: 'order-events' } }))
    .handle(orderHandler((order) => database.executor().query(orderSql, [order.id, order.total])))
  await router.run(source(count))
  return router.health().handled
}

/** Exactly-once handling on MariaDB, against the same statements written by hand. */
export async function mariadbRatios(options: {
  readonly rounds: number
  readonly count: number
  readonly connections: number
}): Promise<readonly number[]> {
  const { connections } = options
  const database = `ackord_bench_${process.pid}`
  const admin = await mysql.createConnection(url)
  await admin.query(`CREATE DATABASE ${database}`)
  const pool = mysql.createPool({ uri: url, database, connectionLimit: connections })
  try {
    await createSchema(fromMysql2(pool))
    await pool.query('CREATE TABLE orders (id VARCHAR(64) PRIMARY KEY, total INT NOT NULL)')
    const rates = await runRounds(
      {
        hand: (count) => rateOf(count, () => byHand(pool, count, connections)),
        ackord: (count) => rateOf(count, () => throughAckord(pool, count, connections)),
      },
      options,
    )
    return rates.ratios('ackord', 'hand')
  } finally {
    await pool.end()
    await admin.query(`DROP DATABASE ${database}`)
    await admin.end()
  }
}
