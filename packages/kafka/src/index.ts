export type { KafkaAdmin, KafkaDeadLettersOptions } from './dead-letters.ts'
export { kafkaDeadLetters } from './dead-letters.ts'
export type {
  FromKafkaJsOptions,
  KafkaJs,
  KafkaJsAnswer,
  KafkaJsAssignment,
  KafkaJsBatch,
  KafkaJsConsumer,
  KafkaJsMessage,
  KafkaJsProducer,
  KafkaJsRecord,
} from './from-kafkajs.ts'
export { fromKafkaJs } from './from-kafkajs.ts'
export type {
  KafkaConsumer,
  KafkaConsumerEvents,
  KafkaConsumerOptions,
  KafkaFault,
  KafkaMessage,
  KafkaPartition,
  KafkaPort,
  KafkaProducer,
  KafkaRecord,
} from './port.ts'
export type { KafkaPublisherOptions } from './publisher/kafka-publisher.ts'
export { kafkaPublisher } from './publisher/kafka-publisher.ts'
export type { KafkaSourceOptions } from './source/kafka-source.ts'
export { kafkaSource } from './source/kafka-source.ts'
export { readRecord } from './source/read-record.ts'
