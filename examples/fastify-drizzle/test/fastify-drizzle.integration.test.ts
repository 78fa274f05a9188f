import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { type Example, startExample } from '../../support/example.ts'
import { holdUpdates } from '../../support/hold-updates.ts'
import { openPostgresSchema, type PostgresSchema } from '../../support/postgres-schema.ts'
import { openRabbitmq, type RabbitmqChannel, rabbitmqUrl } from '../../support/rabbitmq-queue.ts'
import { until } from '../../support/until.ts'

const main = new URL('../src/main.ts', import.meta.url)

interface World extends AsyncDisposable {
  readonly schema: PostgresSchema
  readonly rabbitmq: RabbitmqChannel
  readonly exchange: string
  /** The service's own queue. */
  readonly queue: string
  /** A queue that gets all events, for the test. */
  readonly seen: string
  start(): Promise<Example>
}

async function openWorld(): Promise<World> {
  const name = `example-${randomUUID().slice(0, 8)}`
  const [exchange, queue, seen] = [`${name}-shop`, `${name}-invoices`, `${name}-seen`]
  const schema = await openPostgresSchema()
  const rabbitmq = await openRabbitmq(async (channel) => {
    for (const each of [queue, seen]) await channel.deleteQueue(each)
    await channel.deleteExchange(exchange)
  })
  await rabbitmq.channel.assertExchange(exchange, 'topic')
  await rabbitmq.channel.assertQueue(seen)
  await rabbitmq.channel.bindQueue(seen, exchange, '#')
  const env = { POSTGRES_URL: schema.url, RABBITMQ_URL: rabbitmqUrl, EXCHANGE: exchange, QUEUE: queue }
  return {
    schema,
    rabbitmq,
    exchange,
    queue,
    seen,
    start: () => startExample({ main, env }),
    async [Symbol.asyncDispose]() {
      await rabbitmq[Symbol.asyncDispose]()
      await schema[Symbol.asyncDispose]()
    },
  }
}

/** Sends an order. Resolves to the status and, in brackets, whether the answer is one that was stored. */
async function postOrder(url: string, key: string, order: object): Promise<string> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': key }
  const response = await fetch(`${url}/orders`, { method: 'POST', headers, body: JSON.stringify(order) })
  await response.arrayBuffer()
  return `${response.status}${response.headers.has('idempotency-replayed') ? ' (replayed)' : ''}`
}

it('carries out a request once, publishes its event, invoices it once, and leaves nothing of a request that fails', async () => {
  await using world = await openWorld()
  const { schema, rabbitmq, exchange, queue, seen } = world
  const { channel } = rabbitmq
  await using example = await world.start()
  const url = example.ready
  await schema.query("INSERT INTO stock VALUES ('lamp', 10)")

  expect((await fetch(`${url}/health`)).status).toBe(200)
  expect(await postOrder(url, 'k-1', { id: 'o-1', product: 'lamp' })).toBe('400')
  expect(await postOrder(url, 'k 2', { id: 'o-2', product: 'lamp', quantity: 1 })).toBe('400')
  expect(await postOrder(url, 'k-2', { id: 'o-2', product: 'lamp', quantity: 11 })).toBe('409')
  const order = { id: 'o-3', product: 'lamp', quantity: 4 }
  const answers = await Promise.all(Array.from({ length: 5 }, () => postOrder(url, 'k-3', order)))
  expect(answers.filter((answer) => answer === '201')).toHaveLength(1)
  expect(answers.every((answer) => ['201', '201 (replayed)', '409'].includes(answer))).toBe(true)
  expect(await postOrder(url, 'k-3', order)).toBe('201 (replayed)')
  expect(await postOrder(url, 'k-3', { ...order, quantity: 5 })).toBe('422')
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
  expect(await postOrder(url, 'k-4', { id: 'o-4', product: 'lamp', quantity: 1 })).toBe('201')
  await until(async () => (await schema.count('invoices')) === 2 && (await channel.checkQueue(queue)).messageCount === 0)
  expect(await example.stop()).toBe(0)
  // The service returned no message to the queue when it stopped, because all were handled.
  expect((await channel.checkQueue(queue)).messageCount).toBe(0)
  expect(await schema.query('SELECT order_id FROM invoices ORDER BY order_id')).toEqual([{ order_id: 'o-3' }, { order_id: 'o-4' }])
  expect(await schema.count('ackord_outbox')).toBe(0)
})

it('carries out a request once whose process was killed in the middle, when it is sent again', async () => {
  await using world = await openWorld()
  const { schema, rabbitmq, seen } = world
  const order = { id: 'o-1', product: 'lamp', quantity: 4 }
  const killed = await world.start()
  await schema.query("INSERT INTO stock VALUES ('lamp', 10)")
  // The first request waits with its order and its event written.
  const held = await holdUpdates(schema, 'stock')
  const lost = postOrder(killed.ready, 'k-1', order)
  lost.catch(() => {})
  await until(held.isReached)
  await killed[Symbol.asyncDispose]()
  await expect(lost).rejects.toThrow()
  await held.end()

  await using example = await world.start()
  let answer = await postOrder(example.ready, 'k-1', order)
  // Until the lease of the killed process ends.
  while (answer === '409') answer = await postOrder(example.ready, 'k-1', order)
  expect(answer).toBe('201')
  expect(await postOrder(example.ready, 'k-1', order)).toBe('201 (replayed)')
  await until(async () => (await schema.count('invoices')) === 1 && (await schema.count('ackord_outbox')) === 0)
  expect(await example.stop()).toBe(0)
  expect(await schema.query('SELECT * FROM orders')).toEqual([order])
  expect(await schema.query('SELECT available FROM stock')).toEqual([{ available: 6 }])
  expect(await rabbitmq.drain(seen)).toHaveLength(1)
})
