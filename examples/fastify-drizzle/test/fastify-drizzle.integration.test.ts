import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { startExample } from '../../support/example.ts'
import { postOrder } from '../../support/order-client.ts'
import { openPostgresSchema } from '../../support/postgres-schema.ts'
import { openRabbitmq, rabbitmqUrl } from '../../support/rabbitmq-queue.ts'
import { until } from '../../support/until.ts'

const main = new URL('../src/main.ts', import.meta.url)

it('stores an order once, publishes its event, invoices it once, and leaves nothing of a request that fails', async () => {
  const name = `example-${randomUUID().slice(0, 8)}`
  const [exchange, queue, seen] = [`${name}-shop`, `${name}-invoices`, `${name}-seen`]
  await using schema = await openPostgresSchema()
  await using rabbitmq = await openRabbitmq(async (channel) => {
    for (const each of [queue, seen]) await channel.deleteQueue(each)
    await channel.deleteExchange(exchange)
  })
  const { channel } = rabbitmq
  const env = { POSTGRES_URL: schema.url, RABBITMQ_URL: rabbitmqUrl, EXCHANGE: exchange, QUEUE: queue }
  await using example = await startExample({ main, env })
  const url = example.ready
  await channel.assertQueue(seen)
  await channel.bindQueue(seen, exchange, '#')
  await schema.query("INSERT INTO stock VALUES ('lamp', 10)")

  expect(await postOrder(url, { id: 'o-1', product: 'lamp' })).toBe(400)
  expect(await postOrder(url, { id: 'o-2', product: 'lamp', quantity: 11 })).toBe(409)
  const order = { id: 'o-3', product: 'lamp', quantity: 4 }
  const statuses = await Promise.all(Array.from({ length: 5 }, () => postOrder(url, order)))
  expect(statuses.sort()).toEqual([200, 200, 200, 200, 201])
  await until(async () => (await schema.count('invoices')) === 1)
  expect(await schema.query('SELECT * FROM orders')).toEqual([order])
  expect(await schema.query('SELECT available FROM stock')).toEqual([{ available: 6 }])

  await until(async () => (await schema.count('ackord_outbox')) === 0)
  const events = await rabbitmq.drain(seen)
  expect(events.map(({ fields, content }) => [fields.routingKey, JSON.parse(content.toString())])).toEqual([['order.placed', order]])

  // A broker may deliver an event again, with the same id.
  const [event] = events
  if (event === undefined) throw new Error('There is one.')
  for (let times = 0; times < 3; times += 1) channel.publish(exchange, 'order.placed', event.content, event.properties)
  // When RabbitMQ has answered, it has received them, so they come before the next event.
  await channel.checkQueue(queue)
  expect(await postOrder(url, { id: 'o-4', product: 'lamp', quantity: 1 })).toBe(201)
  await until(async () => (await schema.count('invoices')) === 2 && (await channel.checkQueue(queue)).messageCount === 0)
  expect(await example.stop()).toBe(0)
  // The service returned no message to the queue when it stopped, because all were handled.
  expect((await channel.checkQueue(queue)).messageCount).toBe(0)
  expect(await schema.query('SELECT order_id FROM invoices ORDER BY order_id')).toEqual([{ order_id: 'o-3' }, { order_id: 'o-4' }])
  expect(await schema.count('ackord_outbox')).toBe(0)
})
