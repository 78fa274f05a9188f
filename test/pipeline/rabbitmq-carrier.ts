import { silentLogger } from '@ackord/core'
import { declareTopology, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { connect } from 'amqplib'
import { startRabbitmq } from '../../scripts/servers/index.mjs'
import type { CarrierKind } from './carrier.ts'

export const rabbitmqCarrier: CarrierKind = {
  name: 'RabbitMQ',
  fault: 'is killed',
  async open(destination) {
    const server = await startRabbitmq()
    const recovery = { initialDelay: 20, maxDelay: 200 }
    const [consuming, publishing] = await Promise.all([connect(server.url, { recovery }), connect(server.url, { recovery })])
    await declareTopology(publishing, { queues: { [destination]: { type: 'quorum' } } })
    // RabbitMQ 3.10 loses a quorum queue with all its messages if it is killed before its first clean restart since the queue was created.
    await server.restart()
    const publisher = rabbitmqPublisher(publishing, { logger: silentLogger })
    const source = rabbitmqSource(consuming, { queue: destination, logger: silentLogger, backoff: () => 50 })
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
        await Promise.all([consuming.close(), publishing.close()])
        await server.stop()
      },
    }
  },
}
