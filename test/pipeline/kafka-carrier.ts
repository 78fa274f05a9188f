import { connect, type Socket } from 'node:net'
import { silentLogger } from '@ackord/core'
import { fromKafkaJs, kafkaPublisher, kafkaSource } from '@ackord/kafka'
import { Kafka, logLevel } from 'kafkajs'
import { startKafkaMock } from '../../scripts/servers/index.mjs'
import type { CarrierKind } from './carrier.ts'

/** The mock cluster has no disk: if killed, it would lose all data. */
export const kafkaCarrier: CarrierKind = {
  name: 'Kafka',
  fault: 'loses its connections',
  async open(destination) {
    const server = await startKafkaMock()
    const sockets = new Set<Socket>()
    const client = new Kafka({
      brokers: [new URL(server.url).host],
      logLevel: logLevel.NOTHING,
      retry: { retries: 2, initialRetryTime: 50 },
      socketFactory({ host, port, onConnect }) {
        const socket = connect({ host, port }, onConnect)
        sockets.add(socket)
        return socket.on('close', () => sockets.delete(socket))
      },
    })
    const kafka = fromKafkaJs(client, {
      producer: { allowAutoTopicCreation: true },
      consumer: { sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 100, rebalanceTimeout: 6000 },
    })
    // Requesting the metadata of a missing topic creates it.
    const admin = client.admin()
    await admin.connect()
    await admin.fetchTopicMetadata({ topics: [destination] })
    await admin.disconnect()
    const publisher = kafkaPublisher(kafka)
    const source = kafkaSource(kafka, { topics: [destination], group: 'billing', logger: silentLogger, backoff: () => 50 })
    return {
      publisher,
      source,
      async crash() {
        for (const socket of [...sockets]) socket.destroy(new Error('cut by the test'))
      },
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]()
        await server.stop()
      },
    }
  },
}
