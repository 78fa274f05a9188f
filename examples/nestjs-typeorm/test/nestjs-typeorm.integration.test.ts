import { randomUUID } from 'node:crypto'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { expect, it } from 'vitest'
import { startExample } from '../../support/example.ts'
import { postOrder } from '../../support/order-client.ts'
import { openRabbitmq, rabbitmqUrl } from '../../support/rabbitmq-queue.ts'
import { until } from '../../support/until.ts'

const main = new URL('../src/main.ts', import.meta.url)
const mariadbUrl = process.env['MARIADB_URL'] ?? 'mysql://root@127.0.0.1:3306/test'

it('stores an order once, publishes its event once, and leaves nothing of a request that fails', async () => {
  const queue = `example-${randomUUID().slice(0, 8)}`
  await using database = await openDatabase(queue.replace('-', '_'))
  await using rabbitmq = await openRabbitmq((channel) => channel.deleteQueue(queue))
  await using example = await startExample({ main, env: { MARIADB_URL: database.url, RABBITMQ_URL: rabbitmqUrl, QUEUE: queue } })
  const url = example.ready
  await database.query("INSERT INTO stock VALUES ('lamp', 10)")

  expect(await postOrder(url, { id: 'o-1', product: 'lamp', quantity: 'many' })).toBe(400)
  expect(await postOrder(url, { id: 'o-2', product: 'lamp', quantity: 11 })).toBe(409)
  const order = { id: 'o-3', product: 'lamp', quantity: 4 }
  const statuses = await Promise.all(Array.from({ length: 5 }, () => postOrder(url, order)))
  expect(statuses.sort()).toEqual([200, 200, 200, 200, 201])
  await until(async () => Number((await database.query('SELECT count(*) AS count FROM ackord_outbox'))[0]?.['count']) === 0)
  // If they were truncated to the length of the column, or compared as MariaDB does, these orders would look like repeated ones.
  const long = 'o'.repeat(36)
  expect(await postOrder(url, { id: long, product: 'lamp', quantity: 11 })).toBe(409)
  expect(await postOrder(url, { id: `${long}o`, product: 'lamp', quantity: 1 })).toBe(400)
  expect(await postOrder(url, { ...order, id: 'O-3' })).toBe(400)
  expect(await example.stop()).toBe(0)

  expect(await database.query('SELECT * FROM orders')).toEqual([order])
  expect(await database.query('SELECT available FROM stock')).toEqual([{ available: 6 }])
  const events = await rabbitmq.drain(queue)
  expect(events.map(({ properties, content }) => [properties.type, JSON.parse(content.toString())])).toEqual([['order.placed', order]])
})

/** A separate MariaDB database, dropped at the end. */
async function openDatabase(name: string) {
  const url = new URL(mariadbUrl)
  url.pathname = name
  const connection = await createConnection(mariadbUrl)
  await connection.query(`CREATE DATABASE ${name}`)
  await connection.query(`USE ${name}`)
  return {
    url: url.href,
    async query(text: string): Promise<readonly Record<string, unknown>[]> {
      const [rows] = await connection.query<RowDataPacket[]>(text)
      return Array.isArray(rows) ? rows.map((row) => ({ ...row })) : []
    },
    async [Symbol.asyncDispose]() {
      await connection.query(`DROP DATABASE ${name}`)
      await connection.end()
    },
  }
}
