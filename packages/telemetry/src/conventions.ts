/**
 * The attributes of OpenTelemetry's conventions for messaging, as of 1.45.0. Written down instead of imported, because they are experimental: the package that has them
 * renames them in minor releases. A test compares them with it.
 */
export const attribute = {
  systemName: 'messaging.system.name',
  operationName: 'messaging.operation.name',
  operationType: 'messaging.operation.type',
  destinationName: 'messaging.destination.name',
  messageId: 'messaging.message.id',
  batchCount: 'messaging.batch.message_count',
  consumerGroup: 'messaging.consumer.group.name',
  serverAddress: 'server.address',
  serverPort: 'server.port',
  errorType: 'error.type',
} as const

/** Attributes of Ackord's own. */
export const ownAttribute = {
  messageType: 'ackord.message.type',
  deliveryCount: 'ackord.delivery_count',
  /** Seconds since the oldest message of the call was stored in the outbox. */
  oldestAge: 'ackord.outbox.oldest_age',
  attempts: 'ackord.outbox.attempts',
  parkReason: 'ackord.outbox.park_reason',
  failedCount: 'ackord.failed_message_count',
} as const

export const metricName = {
  operationDuration: 'messaging.client.operation.duration',
  sentMessages: 'messaging.client.sent.messages',
  consumedMessages: 'messaging.client.consumed.messages',
  processDuration: 'messaging.process.duration',
} as const

/** The values of `messaging.system.name` for sources and publishers that do not say what they are connected to. */
export const unknownSystem = 'ackord'
