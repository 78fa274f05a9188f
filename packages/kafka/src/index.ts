export type {
  FromKafkaJsOptions,
  KafkaJs,
  KafkaJsAssignment,
  KafkaJsBatch,
  KafkaJsConsumer,
  KafkaJsMessage,
  KafkaJsProducer,
  KafkaJsRecord,
} from './from-kafkajs.ts'
export { fromKafkaJs } from './from-kafkajs.ts'
export type { KafkaPublisherOptions } from './kafka-publisher.ts'
export { kafkaPublisher } from './kafka-publisher.ts'
export type { KafkaSourceOptions } from './kafka-source.ts'
export { kafkaSource } from './kafka-source.ts'
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
