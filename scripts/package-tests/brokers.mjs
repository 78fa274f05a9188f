// @ts-check
// For each broker: the environment of a service on it, and what to remove afterwards.
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectNats } from '@nats-io/transport-node'
import { connect as connectRabbitmq } from 'amqplib'
import { freePort } from '../servers/free-port.mjs'
import { removeRedisKeys } from './stores.mjs'

/**
 * @typedef {object} OpenBroker
 * @property {Readonly<Record<string, string>>} environment
 * @property {() => Promise<void>} remove rejects if messages are left that were not handled
 */

/** @typedef {(name: string) => Promise<OpenBroker>} OpenBrokerFunction */

/** @type {OpenBrokerFunction} */
async function rabbitmq(name) {
  const url = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'
  return {
    environment: { RABBITMQ_URL: url },
    async remove() {
      const connection = await connectRabbitmq(url)
      const channel = await connection.createChannel()
      const queues = ['orders', 'orders.dead', 'order-events'].map((queue) => `${name}.${queue}`)
      const left = []
      for (const queue of queues) left.push((await channel.deleteQueue(queue)).messageCount)
      await connection.close()
      if (left.some((count) => count > 0)) throw new Error(`Messages were left in ${queues.join(', ')}: ${left.join(', ')}.`)
    },
  }
}

/** @type {OpenBrokerFunction} */
async function nats(name) {
  const url = process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222'
  return {
    environment: { NATS_URL: url },
    async remove() {
      const connection = await connectNats({ servers: url })
      const { streams } = await jetstreamManager(connection)
      await streams.delete(name)
      await connection.close()
    },
  }
}

/** Topics cannot be removed from the mock cluster, which does not outlive the run. @type {OpenBrokerFunction} */
async function kafka() {
  return { environment: { KAFKA_URL: process.env['KAFKA_URL'] ?? 'kafka://127.0.0.1:9092' }, async remove() {} }
}

/** @type {OpenBrokerFunction} */
async function redisStreams(name) {
  return {
    environment: { REDIS_URL: process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379' },
    remove: () => removeRedisKeys(name),
  }
}

/** @type {OpenBrokerFunction} */
async function http() {
  const [port, eventsPort] = [await freePort(), await freePort()]
  const environment = {
    PORT: `${port}`,
    MESSAGES_URL: `http://127.0.0.1:${port}/messages`,
    EVENTS_URL: `http://127.0.0.1:${eventsPort}/events`,
  }
  return { environment, async remove() {} }
}

/** @type {Readonly<Record<string, OpenBrokerFunction>>} */
export const openBroker = { rabbitmq, nats, kafka, 'redis-streams': redisStreams, http }
