import { randomUUID } from 'node:crypto'
import { type Connection, createConnection, type RowDataPacket } from 'mysql2/promise'
import { expect, it } from 'vitest'
import { startExample } from '../../support/example.ts'
import { postOrder } from '../../support/order-client.ts'
import { openRabbitmq, rabbitmqUrl } from '../../support/rabbitmq-queue.ts'
import { until } from '../../support/until.ts'

const main = new URL('../src/main.ts', import.meta.url)
const mariadbUrl = process.env['MARIADB_URL'] ?? 'mysql://root@127.0.0.1:3306/test'

it('stores an order once, publishes its event once, and leaves nothing of a request that fails', async () => {
  await using world = await openWorld()
  await using example = await world.start()
  const url = example.ready
  await world.query("INSERT INTO stock VALUES ('lamp', 10)")

  expect(await postOrder(url, { id: 'o-1', product: 'lamp', quantity: 'many' })).toBe(400)
  expect(await postOrder(url, { id: 'o-2', product: 'lamp', quantity: 11 })).toBe(409)
  const order = { id: 'o-3', product: 'lamp', quantity: 4 }
  const statuses = await Promise.all(Array.from({ length: 5 }, () => postOrder(url, order)))
  expect(statuses.sort()).toEqual([200, 200, 200, 200, 201])
  // If they were truncated to the length of the column, or compared as MariaDB does, these orders would look like repeated ones.
  const long = 'o'.repeat(36)
  expect(await postOrder(url, { id: long, product: 'lamp', quantity: 11 })).toBe(409)
  expect(await postOrder(url, { id: `${long}o`, product: 'lamp', quantity: 1 })).toBe(400)
  expect(await postOrder(url, { ...order, id: 'O-3' })).toBe(400)
  await world.published()
  expect(await example.stop()).toBe(0)

  expect(await world.query('SELECT * FROM orders')).toEqual([order])
  expect(await world.query('SELECT available FROM stock')).toEqual([{ available: 6 }])
  expect(await world.events()).toEqual([['order.placed', order]])
})

it('counts a delivery once that is reported several times, also if it is killed in the transaction', async () => {
  await using world = await openWorld()
  const stock = () => world.query('SELECT available FROM stock')
  const lamps = (quantity: number) => ({ product: 'lamp', quantity })
  await using killed = await world.start()
  await world.query("INSERT INTO stock VALUES ('lamp', 10)")
  world.deliver('d-1', lamps(1))
  world.deliver('d-1', lamps(1))
  world.deliver('d-2', { product: 'unicorn', quantity: 1 })
  world.deliver('d-3', lamps(2))
  await until(async () => (await world.count('ackord_inbox')) === 2)
  await world.published()
  expect(await stock()).toEqual([{ available: 13 }])

  // The handler of the next delivery waits for this lock, with its inbox record written.
  await world.query('BEGIN')
  await world.query('SELECT * FROM stock FOR UPDATE')
  world.deliver('d-4', lamps(4))
  await until(() => world.isWaiting())
  await killed[Symbol.asyncDispose]()
  await world.query('ROLLBACK')
  expect(await stock()).toEqual([{ available: 13 }])

  await using example = await world.start()
  await until(async () => (await world.count('ackord_inbox')) === 3)
  await world.published()
  world.deliver('d-4', lamps(4))
  world.deliver('d-5', lamps(8))
  await until(async () => (await world.count('ackord_inbox')) === 4)
  await world.published()
  expect(await example.stop()).toBe(0)
  expect(await stock()).toEqual([{ available: 25 }])
  expect(await world.events()).toEqual([1, 2, 4, 8].map((quantity) => ['stock.added', lamps(quantity)]))
  expect(await world.rejected()).toEqual([['goods.delivered', { product: 'unicorn', quantity: 1 }]])
})

/** A separate MariaDB database and separate queues, which are removed at the end. */
async function openWorld() {
  const name = `example_${randomUUID().slice(0, 8)}`
  const url = new URL(mariadbUrl)
  url.pathname = name
  const connection = await createConnection(mariadbUrl)
  await connection.query(`CREATE DATABASE ${name}`)
  await connection.query(`USE ${name}`)
  const queues = ['deliveries', 'deliveries.dead', 'order-events'].map((queue) => `${name}.${queue}`)
  const [deliveries = '', dead = '', events = ''] = queues
  const rabbitmq = await openRabbitmq(async (channel) => {
    for (const queue of queues) await channel.deleteQueue(queue)
  })
  const rows = (text: string) => query(connection, text)
  const count = async (table: string) => Number((await rows(`SELECT count(*) AS count FROM ${table}`))[0]?.['count'])
  const drain = async (queue: string) =>
    (await rabbitmq.drain(queue)).map(({ properties, content }) => [properties.type, JSON.parse(content.toString())])
  return {
    start: () => startExample({ main, env: { MARIADB_URL: url.href, RABBITMQ_URL: rabbitmqUrl, QUEUE_PREFIX: `${name}.` } }),
    query: rows,
    count,
    /** Waits until the outbox is empty. */
    published: () => until(async () => (await count('ackord_outbox')) === 0),
    /** Whether the handler of a delivery is changing the stock: it waits, because the stock is locked. */
    async isWaiting() {
      const running = `SELECT 1 FROM information_schema.processlist WHERE db = '${name}' AND info LIKE 'UPDATE \`stock\`%'`
      return (await rows(running)).length > 0
    },
    /** Reports a delivery of goods, as another service would. */
    deliver(id: string, goods: object) {
      const attributes = { specversion: '1.0', id, source: '/warehouse', type: 'goods.delivered' }
      const headers = Object.fromEntries(Object.entries(attributes).map(([name, value]) => [`cloudEvents:${name}`, value]))
      rabbitmq.channel.sendToQueue(deliveries, Buffer.from(JSON.stringify(goods)), { contentType: 'application/json', headers })
    },
    events: () => drain(events),
    rejected: () => drain(dead),
    async [Symbol.asyncDispose]() {
      await rabbitmq[Symbol.asyncDispose]()
      await connection.query(`DROP DATABASE ${name}`)
      await connection.end()
    },
  }
}

async function query(connection: Connection, text: string): Promise<readonly Record<string, unknown>[]> {
  const [rows] = await connection.query<RowDataPacket[]>(text)
  return Array.isArray(rows) ? rows.map((row) => ({ ...row })) : []
}
