import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { startExample } from '../../support/example.ts'
import { postOrder } from '../../support/order-client.ts'
import { openPostgresSchema } from '../../support/postgres-schema.ts'
import { openRabbitmq, rabbitmqUrl } from '../../support/rabbitmq-queue.ts'
import { until } from '../../support/until.ts'

const main = new URL('../src/main.ts', import.meta.url)

it('commits the order and its event in the transaction of the request, once, and leaves nothing of one that fails', async () => {
  const queue = `example-${randomUUID().slice(0, 8)}`
  await using schema = await openPostgresSchema()
  await using rabbitmq = await openRabbitmq((channel) => channel.deleteQueue(queue))
  await using example = await startExample({ main, env: { POSTGRES_URL: schema.url, RABBITMQ_URL: rabbitmqUrl, QUEUE: queue } })
  const url = example.ready
  await schema.query("INSERT INTO stock VALUES ('lamp', 10)")

  expect(await postOrder(url, { id: 'o-1' })).toBe(400)
  expect(await postOrder(url, { id: 'o-2', product: 'lamp', quantity: 11 })).toBe(409)
  const order = { id: 'o-3', product: 'lamp', quantity: 4 }
  const statuses = await Promise.all(Array.from({ length: 5 }, () => postOrder(url, order)))
  expect(statuses.sort()).toEqual([200, 200, 200, 200, 201])
  await until(async () => (await schema.count('ackord_outbox')) === 0)
  expect(await example.stop()).toBe(0)

  expect(await schema.query('SELECT * FROM orders')).toEqual([order])
  expect(await schema.query('SELECT available FROM stock')).toEqual([{ available: 6 }])
  const events = await rabbitmq.drain(queue)
  expect(events.map(({ properties, content }) => [properties.type, JSON.parse(content.toString())])).toEqual([['order.placed', order]])
})
