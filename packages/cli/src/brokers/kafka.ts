import type { Logger } from '@ackord/core'
import { fromKafkaJs, kafkaDeadLetters, kafkaPublisher, kafkaSource } from '@ackord/kafka'
import { Kafka, logLevel, Partitioners } from 'kafkajs'
import type { ServiceUrl } from '../settings/urls.ts'
import type { Broker } from './broker.ts'

const connectTimeout = 5000

/** A destination is a topic, which must exist. `kafkas:` is Kafka over TLS; user and password are used for SASL PLAIN. */
export async function openKafka({ hosts, user, password, scheme, address }: ServiceUrl, logger: Logger): Promise<Broker> {
  const client = new Kafka({
    clientId: 'ackord',
    brokers: hosts.map((host) => (/:\d+$/.test(host) ? host : `${host}:9092`)),
    ssl: scheme === 'kafkas',
    ...(user !== undefined && password !== undefined && { sasl: { mechanism: 'plain', username: user, password } }),
    connectionTimeout: connectTimeout,
    authenticationTimeout: connectTimeout,
    retry: { retries: 1, initialRetryTime: 100 },
    // The client's log repeats what its errors say.
    logLevel: logLevel.NOTHING,
  })
  const admin = client.admin()
  await admin.connect()
  const kafka = fromKafkaJs(client, {
    producer: { createPartitioner: Partitioners.DefaultPartitioner },
    // Only the demo and `dead-letters` consume: neither should wait long for a killed process to time out.
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
        // A broker may create topics automatically and reject explicit requests to create them.
        await admin.fetchTopicMetadata({ topics: [topic] })
        if (!(await exists(topic))) throw error
      }
    },
    async removeTopic(topic) {
      if (!(await exists(topic))) return
      // A group that still has a member is removed by the broker after the session time-out.
      await admin.deleteGroups([topic]).catch(() => {})
      const { brokers, controller } = await admin.describeCluster()
      // A mock cluster has no controller, which deletes topics.
      if (brokers.some(({ nodeId }) => nodeId === controller)) await admin.deleteTopics({ topics: [topic] })
    },
    deadLetters: (topic, { group }) => kafkaDeadLetters(kafka, admin, topic, { publisher, group, logger }),
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
