// @ts-check
import { randomUUID } from 'node:crypto'
import { silentLogger } from '@ackord/core'
import { rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { connect } from 'amqplib'
import { testBroker } from './brokers.mjs'

/** @param {import('./checks.mjs').Checks} checks */
export async function register(checks) {
  const url = process.env['RABBITMQ_URL'] ?? ''
  const door = await connect(url)
  const admin = await door.createChannel()
  const name = () => `${process.env['NAME']}-${randomUUID()}`

  /** @returns {Promise<import("@ackord/testkit/suites").BrokerWorld>} */
  async function open() {
    const connection = await connect(url, { recovery: { initialDelay: 10, maxDelay: 200 } })
    connection.on('error', () => {})
    /** @type {string[]} */
    const queues = []
    /** @type {AsyncDisposable[]} */
    const opened = []
    const keep = (/** @type {any} */ part) => {
      opened.push(part)
      return part
    }
    return {
      async topic() {
        const queue = name()
        queues.push(queue)
        await admin.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } })
        return {
          destination: queue,
          source: ({ deadLetter, prefetch } = {}) =>
            keep(rabbitmqSource(connection, { queue, deadLetter, prefetch, logger: silentLogger })),
        }
      },
      publisher: () => keep(rabbitmqPublisher(connection, { logger: silentLogger })),
      missing: name,
      async [Symbol.asyncDispose]() {
        for (const each of opened) await each[Symbol.asyncDispose]()
        await connection.close()
        for (const queue of queues) {
          await admin.deleteQueue(queue)
          await admin.deleteExchange(`${queue}.ackord.retry`)
          for (const level of ['1s', '10s', '1m', 'long']) await admin.deleteQueue(`${queue}.ackord.retry.${level}`)
        }
      },
    }
  }

  testBroker(checks, 'RabbitMQ with amqplib', open, {
    competing: true,
    settlesEach: true,
    delay: true,
    deliveryCount: true,
    types: true,
    names: true,
    origin: true,
    declared: true,
  })
  return () => door.close()
}
