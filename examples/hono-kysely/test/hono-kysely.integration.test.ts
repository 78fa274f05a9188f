import { randomUUID } from 'node:crypto'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import { expect, it } from 'vitest'
import { startExample } from '../../support/example.ts'
import { holdUpdates } from '../../support/hold-updates.ts'
import { postOrder } from '../../support/order-client.ts'
import { openPostgresSchema } from '../../support/postgres-schema.ts'
import { until } from '../../support/until.ts'

const main = new URL('../src/main.ts', import.meta.url)
const natsUrl = process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222'

it('stores an order once, publishes its event, plans its shipment once, and leaves nothing of a request that fails', async () => {
  const stream = `example-${randomUUID().slice(0, 8)}`
  await using schema = await openPostgresSchema()
  await using nats = await openNats(stream)
  await using example = await startExample({ main, env: { POSTGRES_URL: schema.url, NATS_URL: natsUrl, STREAM: stream } })
  const url = example.ready
  await schema.query("INSERT INTO stock VALUES ('lamp', 10)")

  expect(await postOrder(url, { id: 'o-1', product: 'lamp', quantity: 0 })).toBe(400)
  expect(await postOrder(url, { id: 'o-2', product: 'lamp', quantity: 11 })).toBe(409)
  const order = { id: 'o-3', product: 'lamp', quantity: 4 }
  const statuses = await Promise.all(Array.from({ length: 5 }, () => postOrder(url, order)))
  expect(statuses.sort()).toEqual([200, 200, 200, 200, 201])
  expect(await schema.query('SELECT * FROM orders')).toEqual([order])
  expect(await schema.query('SELECT available FROM stock')).toEqual([{ available: 6 }])

  await until(async () => (await nats.subjects())[`${stream}.shipments`] !== undefined)
  await until(async () => (await schema.count('ackord_outbox')) === 0)
  expect(await nats.subjects()).toEqual({ [`${stream}.orders`]: 1, [`${stream}.shipments`]: 1 })

  // A broker may deliver an event again, with the same id.
  await nats.repeat(`${stream}.orders`, 3)
  await until(() => nats.isHandled('shipping'))
  expect(await example.stop()).toBe(0)
  expect(await schema.query('SELECT * FROM shipments')).toEqual([{ order_id: 'o-3', product: 'lamp' }])
  expect(await nats.subjects()).toEqual({ [`${stream}.orders`]: 4, [`${stream}.shipments`]: 1 })
})

it('stores an order once whose process was killed in the middle, when it is sent again', async () => {
  const stream = `example-${randomUUID().slice(0, 8)}`
  await using schema = await openPostgresSchema()
  await using nats = await openNats(stream)
  const start = () => startExample({ main, env: { POSTGRES_URL: schema.url, NATS_URL: natsUrl, STREAM: stream } })
  const order = { id: 'o-1', product: 'lamp', quantity: 4 }
  const killed = await start()
  await schema.query("INSERT INTO stock VALUES ('lamp', 10)")
  // The request waits with its order and its event written.
  const held = await holdUpdates(schema, 'stock')
  const lost = postOrder(killed.ready, order)
  lost.catch(() => {})
  await until(held.isReached)
  await killed[Symbol.asyncDispose]()
  await expect(lost).rejects.toThrow()
  await held.end()
  expect(await schema.count('orders')).toBe(0)

  await using example = await start()
  expect(await postOrder(example.ready, order)).toBe(201)
  expect(await postOrder(example.ready, order)).toBe(200)
  await until(async () => (await schema.count('shipments')) === 1 && (await schema.count('ackord_outbox')) === 0)
  expect(await example.stop()).toBe(0)
  expect(await schema.query('SELECT available FROM stock')).toEqual([{ available: 6 }])
  expect(await nats.subjects()).toEqual({ [`${stream}.orders`]: 1, [`${stream}.shipments`]: 1 })
})

/** The test's access to NATS. */
async function openNats(stream: string) {
  const connection = await connect({ servers: natsUrl })
  const { streams, consumers } = await jetstreamManager(connection)
  return {
    /** The number of messages of each subject. */
    async subjects(): Promise<Readonly<Record<string, number>>> {
      const { state } = await streams.info(stream, { subjects_filter: '>' })
      return { ...state.subjects }
    },
    /** Sends the last message again, bypassing the stream's own deduplication by id. */
    async repeat(subject: string, times: number): Promise<void> {
      const message = await streams.getMessage(stream, { last_by_subj: subject })
      if (message === null) throw new Error(`There is nothing under ${subject}.`)
      const again = headers()
      for (const [name, values] of message.header) if (name !== 'Nats-Msg-Id') for (const value of values) again.append(name, value)
      for (let count = 0; count < times; count += 1) await connection.request(subject, message.data, { headers: again, timeout: 5000 })
    },
    /** Whether all messages were delivered and acked. */
    async isHandled(consumer: string): Promise<boolean> {
      const { num_pending: pending, num_ack_pending: unacked } = await consumers.info(stream, consumer)
      return pending + unacked === 0
    },
    async [Symbol.asyncDispose]() {
      await streams.delete(stream)
      await connection.close()
    },
  }
}
