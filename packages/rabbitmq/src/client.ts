/** The part of amqplib 2 that is used. Its objects are passed in; amqplib itself is not imported. */
export interface RabbitmqConnection {
  createChannel(): Promise<RabbitmqChannel>
  createConfirmChannel(): Promise<RabbitmqConfirmChannel>
  /** Only a connection that was opened with `{ recovery: … }` has this method. */
  waitForConnect?(): Promise<unknown>
  on(event: 'error' | 'reconnect-failed', listener: (error: Error) => void): unknown
}

export interface RabbitmqChannel {
  assertQueue(queue: string, options: { durable: boolean; arguments: Record<string, unknown> }): Promise<unknown>
  prefetch(count: number): Promise<unknown>
  consume(queue: string, onMessage: (message: RabbitmqMessage | null) => void, options: { consumerTag: string }): Promise<unknown>
  cancel(consumerTag: string): Promise<unknown>
  ack(message: RabbitmqMessage, allUpTo: boolean): void
  nack(message: RabbitmqMessage, allUpTo: boolean, requeue: boolean): void
  close(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'close', listener: () => void): unknown
}

export interface RabbitmqConfirmChannel {
  publish(
    exchange: string,
    routingKey: string,
    content: Buffer,
    options: RabbitmqProperties & { mandatory: boolean; persistent: boolean },
    onConfirm: (error: unknown) => void,
  ): boolean
  close(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'drain', listener: () => void): unknown
  on(event: 'return', listener: (message: Pick<RabbitmqMessage, 'properties'>) => void): unknown
  prependListener(event: 'close', listener: () => void): unknown
}

/** The properties that a publisher sets. Missing properties are not sent. */
export interface RabbitmqProperties {
  headers: Record<string, unknown>
  contentType?: string
  messageId?: string
  type?: string
  correlationId?: string
  timestamp?: number
}

/** A message as amqplib delivers it. */
export interface RabbitmqMessage {
  readonly content: Buffer
  readonly fields: {
    readonly deliveryTag: number
    readonly redelivered: boolean
    readonly exchange: string
    readonly routingKey: string
  }
  readonly properties: {
    readonly headers?: Readonly<Record<string, unknown>> | undefined
    readonly contentType?: unknown
    readonly messageId?: unknown
    readonly type?: unknown
    readonly appId?: unknown
    readonly correlationId?: unknown
    readonly timestamp?: unknown
    readonly expiration?: unknown
    readonly userId?: unknown
    readonly clusterId?: unknown
    readonly deliveryMode?: unknown
  }
}

/** AMQP's reply code; `undefined` if amqplib's error has none. */
export function replyCode(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
