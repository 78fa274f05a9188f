import { fork } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { jsonMarshaler, marshal, publishAll, silentLogger } from '@ackord/core'
import { rabbitmqPublisher } from '@ackord/rabbitmq'
import { createSchema, sqlOutbox, sqlProcesses } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { connect } from 'amqplib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openSchema, postgresUrl } from '../../packages/sql/test/support/own-schema.ts'
import { bundle } from '../../scripts/bundle.mjs'
import { until } from '../pipeline/until.ts'
import { orderPlaced } from './order-process.ts'

const rabbitmqUrl = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'
const program = fileURLToPath(new URL(`../../.cache/process/order-services-${process.pid}.mjs`, import.meta.url))

beforeAll(() => bundle(fileURLToPath(new URL('./order-services.ts', import.meta.url)), program))
afterAll(() => {
  for (const file of [program, `${program}.map`]) rmSync(file, { force: true })
})

const queues = ['order-process', 'payments', 'shipping', 'orders']

/** What each of the orders leads to, wherever the shop is killed. */
const expected = [
  'cancel declined: payment declined',
  'cancel silent: no payment',
  'cancel unshippable: shipping failed',
  'charge declined',
  'charge paid',
  'charge silent',
  'charge unshippable',
  'confirm paid',
  'refund p-unshippable',
  'ship paid',
  'ship unshippable',
]

describe('the process of an order, of its payment and its shipping', () => {
  it('confirms, cancels or refunds each order once, although the shop is killed three times', async () => {
    await using schema = await openSchema()
    const pool = schema.createPool({ max: 2 })
    const database = fromPg(pool, { logger: silentLogger })
    await createSchema(database)
    await schema.query('CREATE TABLE effects (text text NOT NULL)')
    const connection = await connect(rabbitmqUrl)
    const channel = await connection.createChannel()
    const nameOf = (queue: string) => `${schema.schema}.${queue}`
    for (const queue of queues) {
      await channel.assertQueue(nameOf(queue), { expires: 600_000, arguments: { 'x-queue-type': 'quorum' } })
    }
    const environment = { PATH: process.env['PATH'], SHOP_POSTGRES: postgresUrl, SHOP_RABBITMQ: rabbitmqUrl, SHOP_SCHEMA: schema.schema }
    const start = (kill: Record<string, string> = {}) => fork(program, [], { env: { ...environment, ...kill }, execArgv: [] })
    const effects = async () => (await schema.query('SELECT text FROM effects ORDER BY text COLLATE "C"')).map(({ text }) => text)

    const orders = ['paid', 'declined', 'silent', 'unshippable'].map((orderId) =>
      orderPlaced({ orderId, total: orderId === 'silent' ? 1 : 42 }, attributesOf(orderId)),
    )
    const raw = orders.map((order) => marshal(order, jsonMarshaler))
    // Each order is delivered twice.
    await publishAll(rabbitmqPublisher(connection), nameOf('order-process'), [...raw, ...raw])

    // Each kill leaves an order that has not begun, so that the next point is reached.
    for (const [SHOP_KILL_AT, SHOP_KILL_HIT] of [
      ['process.saved', '2'],
      ['transaction.afterCommit', '2'],
      ['relay.published', '1'],
    ] as const) {
      const [, signal] = await once(start({ SHOP_KILL_AT, SHOP_KILL_HIT }), 'exit')
      expect([SHOP_KILL_AT, signal]).toEqual([SHOP_KILL_AT, 'SIGKILL'])
    }
    const shop = start()
    try {
      await until(async () => (await effects()).length >= expected.length, 'every order has its effects')
      const outbox = sqlOutbox(database, { logger: silentLogger })
      // What is left are the timeouts of the other orders, which were cancelled and are due much later.
      await until(async () => {
        const { records } = await outbox.list({}, { limit: 100 })
        return records.length === 3 && records.every(({ message, state }) => message.type === 'order.timeout' && state === 'waiting')
      }, 'every other message is published')
      for (const queue of queues)
        await until(async () => (await channel.checkQueue(nameOf(queue))).messageCount === 0, 'the queues are empty')
    } finally {
      shop.kill('SIGKILL')
      await once(shop, 'exit')
    }
    expect(await effects()).toEqual(expected)
    const { processes } = await sqlProcesses(database).list()
    expect(processes.map(({ id, phase, timeouts }) => [id, phase, timeouts])).toEqual(
      ['declined', 'paid', 'silent', 'unshippable'].map((id) => [id, 'finished', {}]),
    )
    for (const queue of queues) await channel.deleteQueue(nameOf(queue))
    await connection.close()
    await pool.end()
  }, 60_000)
})

function attributesOf(id: string) {
  return { id, source: '/shop', specversion: '1.0', time: new Date(0).toISOString() }
}
