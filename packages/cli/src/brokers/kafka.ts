import type { Logger } from '@ackord/core'
import { fromKafkaJs, kafkaPublisher, kafkaSource } from '@ackord/kafka'
import { Kafka, logLevel, Partitioners } from 'kafkajs'
import type { ServiceUrl } from '../settings/urls.ts'
import type { Broker } from './open-broker.ts'

const connectTimeout = 5000

/** A destination is a topic, which has to exist. `kafkas:` is Kafka over TLS; user and password are for SASL PLAIN. */
export async function openKafka({ hosts, user, password, scheme, address }: ServiceUrl, logger: Logger): Promise<Broker> {
  const client = new Kafka({
    clientId: 'ackord',
    brokers: hosts.map((host) => (/:\d+$/.test(host) ? host : `${host}:9092`)),
    ssl: scheme === 'kafkas',
    ...(user !== undefined && password !== undefined && { sasl: { mechanism: 'plain', username: user, password } }),
    connectionTimeout: connectTimeout,
    authenticationTimeout: connectTimeout,
    retry: { retries: 1, initialRetryTime: 100 },
    // What matters is in the errors.
    logLevel: logLevel.NOTHING,
  })
  const admin = client.admin()
  await admin.connect()
  const kafka = fromKafkaJs(client, {
    producer: { createPartitioner: Partitioners.DefaultPartitioner },
    // Only the demo consumes: its next service need not wait long for the one that was killed.
    consumer: { sessionTimeout: 6000, rebalanceTimeout: 6000, heartbeatInterval: 1000 },
  })
  const publisher = kafkaPublisher(kafka)
  const exists = async (topic: string) => (await admin.listTopics()).includes(topic)

  return {
    address,
    publisher,
    source: (topic) => kafkaSource(kafka, { topics: [topic], group: topic, logger }),
    async createTopic(topic) {
      try {
        await admin.createTopics({ topics: [{ topic }], waitForLeaders: true })
      } catch (error) {
        // A broker may make topics for whoever asks for them, and take no orders.
        await admin.fetchTopicMetadata({ topics: [topic] })
        if (!(await exists(topic))) throw error
      }
    },
    async removeTopic(topic) {
      if (!(await exists(topic))) return
      // One that still has a member is forgotten by the broker when that is missed.
      await admin.deleteGroups([topic]).catch(() => {})
      const { brokers, controller } = await admin.describeCluster()
      // What imitates Kafka for tests has nobody who could do it.
      if (brokers.some(({ nodeId }) => nodeId === controller)) await admin.deleteTopics({ topics: [topic] })
    },
    async problemOf(destination) {
      if (await exists(destination)) return undefined
      return `There is no topic '${destination}'. Create it, or map the destination to one that exists: --map ${destination}=topic`
    },
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      await admin.disconnect()
    },
  }
}
