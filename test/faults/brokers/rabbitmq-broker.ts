import { publishAll, silentLogger } from '@ackord/core'
import { rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { startFaultProxy } from '@ackord/testkit'
import { connect } from 'amqplib'
import { ownName } from '../../../scripts/test-run.mjs'
import { eventsName } from '../names.ts'
import type { FaultBrokerKind } from './broker.ts'

const url = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'

/** AMQP class and method ids: basic.publish, basic.ack. */
const methods = { publish: Buffer.from([0, 60, 0, 40]), ack: Buffer.from([0, 60, 0, 80]) }

export const rabbitmqBroker: FaultBrokerKind = {
  name: 'RabbitMQ',
  async open() {
    const name = `faults-${ownName()}`
    const [input, output] = [`${name}.commands`, `${name}.events`]
    const proxy = await startFaultProxy(url)
    const recovery = { initialDelay: 20, maxDelay: 200 }
    // The heartbeat detects a half-open connection.
    const faulty = `${proxy.url}?heartbeat=1`
    const [consuming, publishing] = await Promise.all([connect(faulty, { recovery }), connect(faulty, { recovery })])
    const door = await connect(url)
    const channel = await door.createChannel()
    for (const queue of [input, output]) await channel.assertQueue(queue, { expires: 600_000, arguments: { 'x-queue-type': 'quorum' } })
    const sender = rabbitmqPublisher(door, { logger: silentLogger })
    const publisher = rabbitmqPublisher(publishing, {
      logger: silentLogger,
      route: (destination) => ({ exchange: '', routingKey: destination === eventsName ? output : destination }),
    })
    const source = rabbitmqSource(consuming, { queue: input, prefetch: 8, logger: silentLogger, backoff: () => 20 })
    const published: string[] = []

    return {
      source,
      publisher,
      proxy: () => proxy,
      recognise: (moment) => (bytes) => bytes.includes(methods[moment]),
      send: (commands) => publishAll(sender, input, commands),
      async published() {
        for (let event = await channel.get(output, { noAck: true }); event !== false; event = await channel.get(output, { noAck: true })) {
          published.push(String(event.properties.messageId))
        }
        return [...published]
      },
      waiting: async () => (await channel.checkQueue(input)).messageCount,
      async [Symbol.asyncDispose]() {
        proxy.judge()
        await source[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]()
        for (const queue of [input, output]) await channel.deleteQueue(queue)
        await Promise.all([consuming, publishing, door].map((connection) => connection.close()))
        await proxy[Symbol.asyncDispose]()
      },
    }
  },
}
