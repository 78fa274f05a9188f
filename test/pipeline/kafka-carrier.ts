import type { Socket } from 'node:net'
import { silentLogger } from '@ackord/core'
import { fromKafkaJs, kafkaPublisher, kafkaSource } from '@ackord/kafka'
import { createClient, createTopics, deleteTopics } from '../../packages/kafka/test/support/connection.ts'
import { provideKafka } from '../../scripts/servers/index.mjs'
import type { CarrierKind } from './carrier.ts'

const isKilled = (process.env['KAFKA_HOME'] ?? '') !== ''

/** The mock cluster has no disk: if killed, it would lose all data. A shared broker is not killed either. */
export const kafkaCarrier: CarrierKind = {
  name: 'Kafka',
  fault: isKilled ? 'is killed' : 'loses its connections',
  async open(destination) {
    const { url, isReal, server, stop } = await provideKafka()
    const sockets = new Set<Socket>()
    const client = createClient(url, {}, sockets)
    const kafka = fromKafkaJs(client, {
      consumer: { sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 100, rebalanceTimeout: 6000 },
    })
    const admin = client.admin()
    await admin.connect()
    await createTopics(admin, [destination], { isReal })
    await admin.disconnect()
    const publisher = kafkaPublisher(kafka)
    const group = `${destination}-billing`
    const source = kafkaSource(kafka, { topics: [destination], group, logger: silentLogger, backoff: () => 50 })
    return {
      publisher,
      source,
      async crash() {
        if (isKilled) {
          await server?.kill()
          await server?.restart()
        } else for (const socket of [...sockets]) socket.destroy(new Error('cut by the test'))
      },
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]()
        await admin.connect()
        await deleteTopics(admin, [destination], { isReal })
        await admin.disconnect()
        await stop()
      },
    }
  },
}
