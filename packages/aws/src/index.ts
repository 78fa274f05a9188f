export type {
  AwsBatchFailure,
  AwsBatchResult,
  AwsMessageAttribute,
  AwsRequestOptions,
  EventBridgeClient,
  EventBridgeEntry,
  SnsClient,
  SnsPublishEntry,
  SqsClient,
  SqsPublisherClient,
  SqsReceivedMessage,
  SqsSendEntry,
} from './client.ts'
export type { ContentMode } from './event-text.ts'
export type { S3DeletionFailure, S3ObjectsClient } from './objects/s3-client.ts'
export type { S3ObjectsOptions } from './objects/s3-objects.ts'
export { s3Objects } from './objects/s3-objects.ts'
export type { EventBridgePublisherOptions } from './publisher/event-bridge-publisher.ts'
export { eventBridgePublisher } from './publisher/event-bridge-publisher.ts'
export type { SnsPublisherOptions } from './publisher/sns-publisher.ts'
export { snsPublisher } from './publisher/sns-publisher.ts'
export type { SqsPublisherOptions } from './publisher/sqs-publisher.ts'
export { sqsPublisher } from './publisher/sqs-publisher.ts'
export type { ReadMessage, SqsMessage } from './source/read-message.ts'
export { readMessage, sqsMessage } from './source/read-message.ts'
export type { SqsSourceOptions } from './source/sqs-source.ts'
export { sqsSource } from './source/sqs-source.ts'
