import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { publishAll, silentLogger } from '@ackord/core'
import { fromKafkaJs, kafkaPublisher, kafkaSource } from '@ackord/kafka'
import { startFaultProxy } from '@ackord/testkit'
import { Kafka, logLevel } from 'kafkajs'
import { startKafkaMock } from '../../../scripts/servers/index.mjs'
import { eventsName } from '../names.ts'
import type { BrokerMoment, FaultBrokerKind } from './broker.ts'

/** API keys of the Kafka protocol: Produce, OffsetCommit. */
const requests: Readonly<Record<BrokerMoment, number>> = { publish: 0, ack: 8 }

export const kafkaBroker: FaultBrokerKind = {
  name: 'Kafka (mock)',
  async open() {
    const name = `faults-${randomUUID()}`
    const [input, output] = [`${name}-commands`, `${name}-events`]
    const server = await startKafkaMock()
    const proxy = await startFaultProxy(server.url)
    const common = { brokers: [new URL(server.url).host], logLevel: logLevel.NOTHING, retry: { retries: 2, initialRetryTime: 50 } }
    const direct = new Kafka(common)
    const client = new Kafka({
      ...common,
      requestTimeout: 1000,
      // Always connects to the proxy, whatever address the cluster advertises.
      socketFactory: ({ onConnect }) => connect({ host: '127.0.0.1', port: proxy.port }, onConnect),
    })
    const settings = {
      producer: { allowAutoTopicCreation: true },
      consumer: { sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 100, rebalanceTimeout: 6000 },
    }
    const kafka = fromKafkaJs(client, settings)
    const admin = direct.admin()
    await admin.connect()
    // Requesting the metadata of a missing topic creates it.
    await admin.fetchTopicMetadata({ topics: [input, output] })
    const published: string[] = []
    const reader = direct.consumer({ groupId: 'reader', maxWaitTimeInMs: 50 })
    await reader.connect()
    await reader.subscribe({ topics: [output], fromBeginning: true })
    await reader.run({ eachMessage: async ({ message }) => void published.push(String(message.headers?.['ce_id'])) })
    const sender = kafkaPublisher(fromKafkaJs(direct, settings))
    const publisher = kafkaPublisher(kafka, { route: (destination) => (destination === eventsName ? output : destination) })
    const source = kafkaSource(kafka, { topics: [input], group: 'orders', commitInterval: 20, logger: silentLogger, backoff: () => 50 })

    return {
      source,
      publisher,
      proxy: () => proxy,
      recognise: (moment) => (bytes) => requestsIn(bytes).includes(requests[moment]),
      send: (commands) => publishAll(sender, input, commands),
      published: () => [...published],
      async waiting() {
        const [ends, [committed]] = await Promise.all([
          admin.fetchTopicOffsets(input),
          admin.fetchOffsets({ groupId: 'orders', topics: [input] }),
        ])
        const doneOf = (partition: number) => Number(committed?.partitions.find((one) => one.partition === partition)?.offset ?? 0)
        return ends.reduce((sum, { partition, offset }) => sum + Number(offset) - Math.max(doneOf(partition), 0), 0)
      },
      async [Symbol.asyncDispose]() {
        proxy.judge()
        await source[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]()
        await sender[Symbol.asyncDispose]()
        await reader.disconnect()
        await admin.disconnect()
        await proxy[Symbol.asyncDispose]()
        await server.stop()
      },
    }
  },
}

/** A request starts with its length and its API key. A chunk contains whole requests, unless they are large. */
function requestsIn(bytes: Buffer): number[] {
  const found: number[] = []
  for (let at = 0; at + 6 <= bytes.length; at += 4 + bytes.readInt32BE(at)) found.push(bytes.readInt16BE(at + 4))
  return found
}
