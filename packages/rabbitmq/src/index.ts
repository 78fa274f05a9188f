export type { RabbitmqChannel, RabbitmqConfirmChannel, RabbitmqConnection, RabbitmqMessage, RabbitmqProperties } from './client.ts'
export type { DeadLetterChannel, DeadLetterConnection, RabbitmqDeadLettersOptions } from './dead-letters.ts'
export { rabbitmqDeadLetters } from './dead-letters.ts'
export type { RabbitmqPublisherOptions, RabbitmqRoute } from './publisher/rabbitmq-publisher.ts'
export { rabbitmqPublisher } from './publisher/rabbitmq-publisher.ts'
export type { RabbitmqSourceOptions } from './source/rabbitmq-source.ts'
export { rabbitmqSource } from './source/rabbitmq-source.ts'
export { readMessage } from './source/read-message.ts'
export type { TopologyConnection } from './topology/declare-topology.ts'
export { declareTopology } from './topology/declare-topology.ts'
export type {
  RabbitmqBinding,
  RabbitmqExchangeOptions,
  RabbitmqQueueOptions,
  RabbitmqTopology,
  RabbitmqTopologyQueue,
} from './topology/topology.ts'
