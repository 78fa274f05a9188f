import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { publishAll, silentLogger } from '@ackord/core'
import { fromKafkaJs, kafkaPublisher, kafkaSource } from '@ackord/kafka'
import { startFaultProxy } from '@ackord/testkit'
import { createClient, createTopics, deleteTopics, isReal as isSharedReal } from '../../../packages/kafka/test/support/connection.ts'
import { provideKafka } from '../../../scripts/servers/index.mjs'
import { eventsName } from '../names.ts'
import type { BrokerMoment, FaultBrokerKind } from './broker.ts'

/** API keys of the Kafka protocol: Produce, OffsetCommit. */
const requests: Readonly<Record<BrokerMoment, number>> = { publish: 0, ack: 8 }

/** Whether the environment names a real broker. */
const isNamed = isSharedReal || (process.env['KAFKA_HOME'] ?? '') !== ''

export const kafkaBroker: FaultBrokerKind = {
  name: isNamed ? 'Kafka' : 'Kafka (mock)',
  async open() {
    const name = `faults-${randomUUID()}`
    const [input, output] = [`${name}-commands`, `${name}-events`]
    const group = `${name}-orders`
    const { url, isReal, stop } = await provideKafka()
    const direct = createClient(url)
    const admin = direct.admin()
    await admin.connect()
    const { brokers } = await admin.describeCluster()
    if (brokers.length !== 1) throw new Error(`The faults need a Kafka of one broker; KAFKA_URL names a cluster of ${brokers.length}.`)
    const proxy = await startFaultProxy(url)
    const client = createClient(url, {
      requestTimeout: 1000,
      // Always connects to the proxy, whatever address the cluster advertises.
      socketFactory: ({ onConnect }) => connect({ host: '127.0.0.1', port: proxy.port }, onConnect),
    })
    const kafka = fromKafkaJs(client, {
      consumer: { sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 100, rebalanceTimeout: 6000 },
    })
    await createTopics(admin, [input, output], { isReal })
    const published: string[] = []
    const reader = direct.consumer({ groupId: `${name}-reader`, maxWaitTimeInMs: 50 })
    await reader.connect()
    await reader.subscribe({ topics: [output], fromBeginning: true })
    await reader.run({ eachMessage: async ({ message }) => void published.push(String(message.headers?.['ce_id'])) })
    const sender = kafkaPublisher(fromKafkaJs(direct))
    const publisher = kafkaPublisher(kafka, { route: (destination) => (destination === eventsName ? output : destination) })
    const source = kafkaSource(kafka, { topics: [input], group, commitInterval: 20, logger: silentLogger, backoff: () => 50 })

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
          admin.fetchOffsets({ groupId: group, topics: [input] }),
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
        await deleteTopics(admin, [input, output], { isReal })
        await admin.disconnect()
        await proxy[Symbol.asyncDispose]()
        await stop()
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
