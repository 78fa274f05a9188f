import { amqpPublisher, amqpSource } from '@ackord/amqp'
import { silentLogger } from '@ackord/core'
import { connect } from 'amqplib'
import { closeConnection, open } from '../../packages/amqp/test/support/world.ts'
import { startRabbitmq4 } from '../../scripts/servers/index.mjs'
import type { CarrierKind } from './carrier.ts'

export const amqpCarrier: CarrierKind = {
  name: 'RabbitMQ 4 over AMQP 1.0',
  fault: 'is killed',
  async open(destination) {
    const server = await startRabbitmq4()
    // AMQP 1.0 has no command to create a queue.
    const door = await connect(server.url)
    const channel = await door.createChannel()
    await channel.assertQueue(destination, { durable: true, arguments: { 'x-queue-type': 'quorum' } })
    await door.close()
    // RabbitMQ 4.0 loses a quorum queue if it is killed before it has stored the name of the new queue. Ended properly, it has.
    await server.restart()
    const [consuming, publishing] = [open(server.url), open(server.url)]
    const publisher = amqpPublisher(publishing, { logger: silentLogger })
    const source = amqpSource(consuming, { address: destination, logger: silentLogger, backoff: () => 50 })
    return {
      publisher,
      source,
      async crash() {
        await server.kill()
        await server.restart()
      },
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]()
        await Promise.all([consuming, publishing].map(closeConnection))
        await server.stop()
      },
    }
  },
}
