export { exchangeAddress, queueAddress } from './addresses.ts'
export type {
  AmqpConnection,
  AmqpConnectionEvent,
  AmqpContainer,
  AmqpContext,
  AmqpDelivery,
  AmqpLink,
  AmqpMessage,
  AmqpModification,
  AmqpOutcome,
  AmqpProperties,
  AmqpReceiver,
  AmqpReceiverOptions,
  AmqpSender,
  AmqpSenderOptions,
  AmqpSession,
} from './client.ts'
export type { AmqpPublisherOptions } from './publisher/amqp-publisher.ts'
export { amqpPublisher } from './publisher/amqp-publisher.ts'
export type { AmqpDeadLetter, AmqpSourceOptions } from './source/amqp-source.ts'
export { amqpSource } from './source/amqp-source.ts'
export { readMessage } from './source/read-message.ts'
