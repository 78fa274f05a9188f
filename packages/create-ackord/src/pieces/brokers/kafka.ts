import type { BrokerPiece, PieceContext } from '../piece.ts'
import { connectedBroker } from './connected-broker.ts'

export function kafka({ prefix }: PieceContext): BrokerPiece {
  return {
    ...connectedBroker({ file: 'kafka', kind: 'Topic', connect: 'connectBroker()', close: '' }),
    title: 'Kafka',
    dependencies: ['@ackord/kafka', 'kafkajs'],
    files: { 'src/adapters/kafka.ts': adapter },
    settings: [
      { constant: 'brokerUrl', variable: 'KAFKA_URL', value: 'kafka://127.0.0.1:9092', meaning: 'Kafka.' },
      { constant: 'group', value: `${prefix}-orders`, meaning: 'The consumer group of this service.' },
      { constant: 'ordersTopic', value: `${prefix}-orders`, meaning: 'The topic of this service: commands, and events of other services.' },
      { constant: 'deadLetterTopic', value: `${prefix}-orders-dead`, meaning: 'The topic of messages that could not be handled.' },
      { constant: 'eventsTopic', value: `${prefix}-order-events`, meaning: 'The topic of the events of this service.' },
    ],
    servers: {
      kafka: `image: apache/kafka:3.9.1
ports: ["127.0.0.1:9092:9092"]`,
    },
  }
}

const adapter = `import { fromKafkaJs, kafkaPublisher, kafkaSource } from '@ackord/kafka'
import { Kafka, logLevel } from 'kafkajs'
import { brokerUrl, deadLetterTopic, eventsTopic, group, ordersTopic } from '../settings.ts'

/** Kafka creates missing topics when they are first used. In production, create them yourself, with the partitions and replicas that you need. */
const createTopics = { allowAutoTopicCreation: true }

/** Publisher and sources connect when they are used, and close their connections themselves. */
export function connectBroker() {
  const client = new Kafka({ clientId: group, brokers: [new URL(brokerUrl).host], logLevel: logLevel.ERROR })
  const kafka = fromKafkaJs(client, { producer: createTopics, consumer: createTopics })
  const publisher = kafkaPublisher(kafka)
  return {
    publisher,
    /** The messages for this service. */
    messages: () =>
      kafkaSource(kafka, { topics: [ordersTopic], group, deadLetter: { publisher, destination: deadLetterTopic } }),
    /** The events of this service, as another service would read them. */
    events: () => kafkaSource(kafka, { topics: [eventsTopic], group: \`\${group}-send\` }),
  }
}
`
